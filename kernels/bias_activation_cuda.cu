// What follows a matrix product of linear: the bias and the activation, in one pass over the
// output.
#include "kernels/column_reduce.cuh"
#include "kernels/linear.h"

namespace lockstep::kernels::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kThreads)
    bias_activation_kernel(T* output, const T* bias, int64_t n, int64_t out, bool relu) {
  using A = accumulate_t<T>;
  const auto activate = [relu](A x) { return relu && A{0} > x ? A{0} : x; };
  for (int64_t r = blockIdx.y; r < n; r += gridDim.y) {
    T* const row = output + r * out;
    if (bias == nullptr) {
      map(
          row, out, grid_thread(), grid_threads(), [&](int64_t, A x) { return activate(x); },
          static_cast<const T*>(row));
    } else {
      map(
          row, out, grid_thread(), grid_threads(),
          [&](int64_t, A x, A b) { return activate(x + b); }, static_cast<const T*>(row), bias);
    }
  }
}

template <typename T>
struct Element {
  const T* input;
  int64_t columns;
  __device__ accumulate_t<T> operator()(int64_t r, int64_t c) const {
    return widen(input[r * columns + c]);
  }
};

}  // namespace

template <typename T>
void bias_activation(T* output, const T* bias, int64_t n, int64_t out, cpu::Epilogue epilogue,
                     Stream stream) {
  const bool relu = epilogue == cpu::Epilogue::Relu;
  if (n == 0 || out == 0 || (bias == nullptr && !relu)) return;
  // Narrow rows get small blocks, so that few threads have nothing to do.
  const int64_t groups = (out + kGroupWidth<T> - 1) / kGroupWidth<T>;
  const auto threads = static_cast<unsigned>(std::min<int64_t>((groups + 31) / 32 * 32, kThreads));
  const dim3 grid(static_cast<unsigned>((groups + threads - 1) / threads),
                  static_cast<unsigned>(std::min<int64_t>(n, 65535)));
  launch(bias_activation_kernel<T>, grid, threads, 0, stream, output, bias, n, out, relu);
}

template <typename T>
void linear_backward_bias(T* grad_bias, const T* grad_output, int64_t n, int64_t out,
                          bool accumulate, Stream stream) {
  column_reduce(grad_bias, n, out, accumulate, Element<T>{grad_output, out}, stream);
}

#define LOCKSTEP_INSTANTIATE(T)                                                            \
  template void bias_activation<T>(T*, const T*, int64_t, int64_t, cpu::Epilogue, Stream); \
  template void linear_backward_bias<T>(T*, const T*, int64_t, int64_t, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
