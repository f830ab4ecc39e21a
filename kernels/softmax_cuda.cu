// Softmax and log-softmax on the device, a block for each row.
#include "kernels/row_exp.cuh"
#include "kernels/softmax.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cuda {
namespace {

template <typename T, bool kLog>
__global__ void __launch_bounds__(512)
    softmax_kernel(T* output, const T* input, int64_t rows, int64_t n) {
  using A = accumulate_t<T>;
  __shared__ A partial[kMaxWarps];
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* row = input + r * n;
    const MaxAndSum<A> of_row = row_max_and_sum(row, n, partial);
    const A log_sum = log(of_row.sum);
    const auto formula = [&](int64_t, A x) {
      if constexpr (kLog) return (x - of_row.max) - log_sum;
      return exp(x - of_row.max) / of_row.sum;
    };
    map(output + r * n, n, threadIdx.x, blockDim.x, formula, row);
  }
}

template <typename T, bool kLog>
__global__ void __launch_bounds__(512)
    softmax_backward_kernel(T* grad_input, const T* grad_output, const T* output, int64_t rows,
                            int64_t n, bool accumulate) {
  using A = accumulate_t<T>;
  __shared__ A partial[kMaxWarps];
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* grad = grad_output + r * n;
    const T* y = output + r * n;
    A sum = 0;
    visit(
        n, threadIdx.x, blockDim.x,
        [&](int64_t, A grad_value, A value) { sum += kLog ? grad_value : grad_value * value; },
        grad, y);
    sum = block_reduce(sum, Sum{}, A{0}, partial);
    const auto formula = [&](int64_t, A grad_value, A value) {
      if constexpr (kLog) return grad_value - exp(value) * sum;
      return value * (grad_value - sum);
    };
    map_or_add(grad_input + r * n, n, threadIdx.x, blockDim.x, accumulate, formula, grad, y);
  }
}

template <bool kLog, typename T>
void forward(T* output, const T* input, int64_t rows, int64_t n, Stream stream) {
  if (rows == 0 || n == 0) return;
  launch(softmax_kernel<T, kLog>, blocks_for_rows(rows), threads_for_row(n), 0, stream, output,
         input, rows, n);
}

template <bool kLog, typename T>
void backward(T* grad_input, const T* grad_output, const T* output, int64_t rows, int64_t n,
              bool accumulate, Stream stream) {
  if (rows == 0 || n == 0) return;
  launch(softmax_backward_kernel<T, kLog>, blocks_for_rows(rows), threads_for_row(n), 0, stream,
         grad_input, grad_output, output, rows, n, accumulate);
}

}  // namespace

template <typename T>
void softmax_forward(T* output, const T* input, int64_t rows, int64_t n, Stream stream) {
  forward<false>(output, input, rows, n, stream);
}

template <typename T>
void softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows, int64_t n,
                      bool accumulate, Stream stream) {
  backward<false>(grad_input, grad_output, output, rows, n, accumulate, stream);
}

template <typename T>
void log_softmax_forward(T* output, const T* input, int64_t rows, int64_t n, Stream stream) {
  forward<true>(output, input, rows, n, stream);
}

template <typename T>
void log_softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows,
                          int64_t n, bool accumulate, Stream stream) {
  backward<true>(grad_input, grad_output, output, rows, n, accumulate, stream);
}

#define LOCKSTEP_INSTANTIATE(T)                                                              \
  template void softmax_forward<T>(T*, const T*, int64_t, int64_t, Stream);                  \
  template void softmax_backward<T>(T*, const T*, const T*, int64_t, int64_t, bool, Stream); \
  template void log_softmax_forward<T>(T*, const T*, int64_t, int64_t, Stream);              \
  template void log_softmax_backward<T>(T*, const T*, const T*, int64_t, int64_t, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
