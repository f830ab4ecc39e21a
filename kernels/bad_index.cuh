// The check of an array of indices, by one block: the first one that is out of range is the one
// that is recorded, on every run.
#pragma once

#include "kernels/bad_index.h"
#include "kernels/block_reduce.cuh"

namespace lockstep::kernels::cuda {

__device__ inline bool in_range(int64_t index, int64_t limit) {
  return index >= 0 && index < limit;
}

/// Called by all threads of one block. An earlier note stays. is_allowed(index): whether one that
/// is out of range is meant to be. `partial` as in block_reduce.
template <typename F>
__device__ void record_bad_index(BadIndex* bad, const int64_t* indices, int64_t n, int64_t limit,
                                 int64_t* partial, F is_allowed) {
  int64_t first = n;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const int64_t index = indices[i];
    if (!in_range(index, limit) && !is_allowed(index)) first = min(first, i);
  }
  first = block_reduce(first, Min{}, n, partial);
  if (threadIdx.x == 0 && first < n && bad->position < 0) {
    bad->position = first;
    bad->value = indices[first];
  }
}

}  // namespace lockstep::kernels::cuda
