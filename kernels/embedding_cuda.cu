// Embedding on the device. Backward, the block of the first position of each index adds all rows of
// that index, in order: each row of the table is written once, by one block, without atomics.
#include "kernels/bad_index.cuh"
#include "kernels/embedding.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cuda {
namespace {

__global__ void __launch_bounds__(1024)
    check_kernel(BadIndex* bad, const int64_t* indices, int64_t n, int64_t rows) {
  __shared__ int64_t partial[kMaxWarps];
  record_bad_index(bad, indices, n, rows, partial, [](int64_t) { return false; });
}

template <typename T>
__global__ void __launch_bounds__(512)
    forward_kernel(T* output, const T* weight, const int64_t* indices, int64_t n, int64_t rows,
                   int64_t width) {
  using A = accumulate_t<T>;
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    T* const out = output + i * width;
    const int64_t index = indices[i];
    if (in_range(index, rows)) {
      map(
          out, width, threadIdx.x, blockDim.x, [](int64_t, A x) { return x; },
          weight + index * width);
    } else {
      map(out, width, threadIdx.x, blockDim.x, [](int64_t) { return A{0}; });
    }
  }
}

/// Does an earlier position have the index of position i?
__device__ bool occurs_before(const int64_t* indices, int64_t i) {
  bool found = false;
  for (int64_t j = threadIdx.x; j < i; j += blockDim.x) found |= indices[j] == indices[i];
  return __syncthreads_or(found) != 0;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(T* grad_weight, const T* grad_output, const int64_t* indices, int64_t n,
                    int64_t rows, int64_t width, bool accumulate) {
  using A = accumulate_t<T>;
  __shared__ unsigned hits[kThreads / 32];
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    const int64_t index = indices[i];
    if (!in_range(index, rows)) continue;
    if (occurs_before(indices, i)) continue;
    T* const destination = grad_weight + index * width + column;
    A sum = accumulate && column < width ? widen(*destination) : A{0};
    for (int64_t begin = i; begin < n; begin += kThreads) {
      const int64_t j = begin + threadIdx.x;
      const unsigned votes = __ballot_sync(0xffffffffu, j < n && indices[j] == index);
      if (lane == 0) hits[warp] = votes;
      __syncthreads();
      for (int w = 0; w < kThreads / 32 && column < width; ++w) {
        for (unsigned bits = hits[w]; bits != 0; bits &= bits - 1) {
          const int64_t position = begin + 32 * w + __ffs(static_cast<int>(bits)) - 1;
          sum += widen(grad_output[position * width + column]);
        }
      }
      __syncthreads();
    }
    if (column < width) *destination = narrow<T>(sum);
  }
}

}  // namespace

template <typename T>
void embedding_forward(T* output, BadIndex* bad, const T* weight, const int64_t* indices, int64_t n,
                       int64_t rows, int64_t width, Stream stream) {
  if (n == 0) return;
  const auto threads = static_cast<unsigned>(std::min<int64_t>((n + 31) / 32 * 32, 1024));
  launch(check_kernel, 1, threads, 0, stream, bad, indices, n, rows);
  if (width == 0) return;
  launch(forward_kernel<T>, blocks_for_rows(n), threads_for_row(width), 0, stream, output, weight,
         indices, n, rows, width);
}

template <typename T>
void embedding_backward(T* grad_weight, const T* grad_output, const int64_t* indices, int64_t n,
                        int64_t rows, int64_t width, bool accumulate, Stream stream) {
  const size_t nbytes = static_cast<size_t>(rows * width) * sizeof(T);
  if (!accumulate && nbytes > 0) {
    LOCKSTEP_CUDA_CHECK(cudaMemsetAsync(grad_weight, 0, nbytes, stream));
  }
  if (n == 0 || width == 0) return;
  const dim3 grid(blocks_for_rows(n), static_cast<unsigned>((width + kThreads - 1) / kThreads));
  launch(backward_kernel<T>, grid, kThreads, 0, stream, grad_weight, grad_output, indices, n, rows,
         width, accumulate);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                 \
  template void embedding_forward<T>(T*, BadIndex*, const T*, const int64_t*, int64_t, int64_t, \
                                     int64_t, Stream);                                          \
  template void embedding_backward<T>(T*, const T*, const int64_t*, int64_t, int64_t, int64_t,  \
                                      bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
