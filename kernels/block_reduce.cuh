// Reductions over the threads of a block, always in the same order: a butterfly within each warp,
// then one over the warps' results.
#pragma once

#include "kernels/device.cuh"

namespace lockstep::kernels::cuda {

inline constexpr int kMaxWarps = 32;

struct Sum {
  template <typename A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};
struct Min {
  template <typename A>
  __device__ A operator()(A a, A b) const {
    return b < a ? b : a;
  }
};

template <typename A, typename Op>
__device__ A warp_reduce(A value, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance >>= 1) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

/// Every thread gets the result. `partial` [kMaxWarps] is shared memory of the kernel; the second
/// barrier keeps its next use away from threads that still read. blockDim.x is a multiple of 32.
template <typename A, typename Op>
__device__ A block_reduce(A value, Op op, A identity, A* partial) {
  value = warp_reduce(value, op);
  const unsigned warps = blockDim.x / 32;
  if (warps == 1) return value;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? partial[lane] : identity, op);
  __syncthreads();
  return value;
}

/// Threads for one row of n elements: a few elements each, whole warps.
inline unsigned threads_for_row(int64_t n) {
  return static_cast<unsigned>(std::clamp<int64_t>((n / 4 + 31) / 32 * 32, 32, 512));
}
inline unsigned blocks_for_rows(int64_t rows) {
  return static_cast<unsigned>(std::clamp<int64_t>(rows, 1, 65535));
}

}  // namespace lockstep::kernels::cuda
