// Layer normalisation on the device: a block for each row; the gradients of weight and bias are
// sums over rows.
#include "kernels/block_reduce.cuh"
#include "kernels/column_reduce.cuh"
#include "kernels/layer_norm.h"

namespace lockstep::kernels::cuda {
namespace {

/// The second pass takes the squares of differences: no digits are lost where the mean is large.
template <typename T>
__global__ void __launch_bounds__(512)
    forward_kernel(T* output, accumulate_t<T>* mean, accumulate_t<T>* rstd, const T* input,
                   const T* weight, const T* bias, int64_t rows, int64_t n, double eps) {
  using A = accumulate_t<T>;
  __shared__ A partial[kMaxWarps];
  const A count = static_cast<A>(n);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* row = input + r * n;
    A sum = 0;
    visit(
        n, threadIdx.x, blockDim.x, [&](int64_t, A x) { sum += x; }, row);
    const A row_mean = block_reduce(sum, Sum{}, A{0}, partial) / count;
    A squares = 0;
    visit(
        n, threadIdx.x, blockDim.x,
        [&](int64_t, A x) { squares += (x - row_mean) * (x - row_mean); }, row);
    const A variance = block_reduce(squares, Sum{}, A{0}, partial) / count;
    const A row_rstd = A{1} / sqrt(variance + static_cast<A>(eps));
    if (threadIdx.x == 0) {
      mean[r] = row_mean;
      rstd[r] = row_rstd;
    }
    const auto formula = [&](int64_t, A x, A w, A b) { return (x - row_mean) * row_rstd * w + b; };
    map(output + r * n, n, threadIdx.x, blockDim.x, formula, row, weight, bias);
  }
}

template <typename T>
__global__ void __launch_bounds__(512)
    backward_input_kernel(T* grad_input, const T* grad_output, const T* input, const T* weight,
                          const accumulate_t<T>* mean, const accumulate_t<T>* rstd, int64_t rows,
                          int64_t n, bool accumulate) {
  using A = accumulate_t<T>;
  __shared__ A partial[kMaxWarps];
  const A count = static_cast<A>(n);
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const A row_mean = mean[r];
    const A row_rstd = rstd[r];
    A sum = 0;
    A dot = 0;
    visit(
        n, threadIdx.x, blockDim.x,
        [&](int64_t, A grad, A x, A w) {
          sum += grad * w;
          dot += grad * w * ((x - row_mean) * row_rstd);
        },
        grad_output + r * n, input + r * n, weight);
    sum = block_reduce(sum, Sum{}, A{0}, partial) / count;
    dot = block_reduce(dot, Sum{}, A{0}, partial) / count;
    const auto formula = [&](int64_t, A grad, A x, A w) {
      return row_rstd * (grad * w - sum - (x - row_mean) * row_rstd * dot);
    };
    map_or_add(grad_input + r * n, n, threadIdx.x, blockDim.x, accumulate, formula,
               grad_output + r * n, input + r * n, weight);
  }
}

template <typename T>
struct BiasTerm {
  const T* grad_output;
  int64_t n;
  __device__ accumulate_t<T> operator()(int64_t r, int64_t c) const {
    return widen(grad_output[r * n + c]);
  }
};

template <typename T>
struct WeightTerm {
  const T* grad_output;
  const T* input;
  const accumulate_t<T>* mean;
  const accumulate_t<T>* rstd;
  int64_t n;
  __device__ accumulate_t<T> operator()(int64_t r, int64_t c) const {
    const int64_t i = r * n + c;
    return widen(grad_output[i]) * ((widen(input[i]) - mean[r]) * rstd[r]);
  }
};

}  // namespace

template <typename T>
void layer_norm_forward(T* output, accumulate_t<T>* mean, accumulate_t<T>* rstd, const T* input,
                        const T* weight, const T* bias, int64_t rows, int64_t n, double eps,
                        Stream stream) {
  if (rows == 0) return;
  launch(forward_kernel<T>, blocks_for_rows(rows), threads_for_row(n), 0, stream, output, mean,
         rstd, input, weight, bias, rows, n, eps);
}

template <typename T>
void layer_norm_backward_bias(T* grad_bias, const T* grad_output, int64_t rows, int64_t n,
                              bool accumulate, Stream stream) {
  column_reduce(grad_bias, rows, n, accumulate, BiasTerm<T>{grad_output, n}, stream);
}

template <typename T>
void layer_norm_backward_weight(T* grad_weight, const T* grad_output, const T* input,
                                const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                                int64_t rows, int64_t n, bool accumulate, Stream stream) {
  column_reduce(grad_weight, rows, n, accumulate, WeightTerm<T>{grad_output, input, mean, rstd, n},
                stream);
}

template <typename T>
void layer_norm_backward_input(T* grad_input, const T* grad_output, const T* input, const T* weight,
                               const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                               int64_t rows, int64_t n, bool accumulate, Stream stream) {
  if (rows == 0 || n == 0) return;
  launch(backward_input_kernel<T>, blocks_for_rows(rows), threads_for_row(n), 0, stream, grad_input,
         grad_output, input, weight, mean, rstd, rows, n, accumulate);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                   \
  template void layer_norm_forward<T>(T*, accumulate_t<T>*, accumulate_t<T>*, const T*, const T*, \
                                      const T*, int64_t, int64_t, double, Stream);                \
  template void layer_norm_backward_bias<T>(T*, const T*, int64_t, int64_t, bool, Stream);        \
  template void layer_norm_backward_weight<T>(T*, const T*, const T*, const accumulate_t<T>*,     \
                                              const accumulate_t<T>*, int64_t, int64_t, bool,     \
                                              Stream);                                            \
  template void layer_norm_backward_input<T>(T*, const T*, const T*, const T*,                    \
                                             const accumulate_t<T>*, const accumulate_t<T>*,      \
                                             int64_t, int64_t, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
