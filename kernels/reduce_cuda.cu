// Sums on the device: a partial sum of each block, then one block over those. No atomics, so the
// order, and with it every bit, is the same each time.
#include "kernels/block_reduce.cuh"
#include "kernels/column_reduce.cuh"
#include "kernels/reduce.h"

namespace lockstep::kernels::cuda {
namespace {

constexpr int64_t kElementsPerThread = 16;

struct Value {
  __device__ double operator()(double x) const { return x; }
};
struct Square {
  __device__ double operator()(double x) const { return x * x; }
};

/// result[block] = factor * sum of term(input) over the block's share.
template <typename Out, typename T, typename Term>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(Out* result, const T* input, int64_t n, double factor, Term term) {
  __shared__ double partial[kMaxWarps];
  double total = 0;
  visit(
      n, grid_thread(), grid_threads(),
      [&](int64_t, auto x) { total += term(static_cast<double>(x)); }, input);
  total = block_reduce(total, Sum{}, 0.0, partial);
  if (threadIdx.x == 0) {
    result[blockIdx.x] = narrow<Out>(static_cast<accumulate_t<Out>>(total * factor));
  }
}

template <typename Out, typename T, typename Term>
void sum_terms(Out* result, const T* input, int64_t n, double factor, Term term, Stream stream) {
  const unsigned blocks = blocks_for(n, kElementsPerThread);
  if (blocks == 1) {
    launch(sum_kernel<Out, T, Term>, 1, kThreads, 0, stream, result, input, n, factor, term);
    return;
  }
  const StreamBuffer<double> partial(blocks, stream);
  launch(sum_kernel<double, T, Term>, blocks, kThreads, 0, stream, partial.data(), input, n, 1.0,
         term);
  launch(sum_kernel<Out, double, Value>, 1, kThreads, 0, stream, result, partial.data(),
         int64_t{blocks}, factor, Value{});
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
void sum(T* output, const T* input, int64_t n, double factor, Stream stream) {
  sum_terms(output, input, n, factor, Value{}, stream);
}

template <typename T>
void sum_of_squares(double* result, const T* input, int64_t n, Stream stream) {
  sum_terms(result, input, n, 1.0, Square{}, stream);
}

template <typename T>
void column_sum(T* sums, const T* input, int64_t rows, int64_t columns, bool accumulate,
                Stream stream) {
  column_reduce(sums, rows, columns, accumulate, Element<T>{input, columns}, stream);
}

#define LOCKSTEP_INSTANTIATE(T)                                        \
  template void sum<T>(T*, const T*, int64_t, double, Stream);         \
  template void sum_of_squares<T>(double*, const T*, int64_t, Stream); \
  template void column_sum<T>(T*, const T*, int64_t, int64_t, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
