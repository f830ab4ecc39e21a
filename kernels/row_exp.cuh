// The maximum of a row and the sum of exp(x - maximum), found in one pass over the row: when a new
// maximum appears, what was summed so far is scaled down (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018).
#pragma once

#include "kernels/block_reduce.cuh"

namespace lockstep::kernels::cuda {

template <typename A>
struct MaxAndSum {
  A max = -INFINITY;
  A sum = 0;

  __device__ void add(A x) {
    if (x > max) {
      sum = sum * exp(max - x) + ((x - x) + A{1});  // NaN for an infinite x, as exp(x - x) is
      max = x;
    } else if (x != -INFINITY) {
      sum += exp(x - max);
    }
  }
};

template <typename A>
__device__ A scaled_to(A sum, A from, A to) {
  return from == to ? sum : sum * exp(from - to);
}

struct Max {
  template <typename A>
  __device__ A operator()(A a, A b) const {
    return b > a ? b : a;
  }
};

/// Every thread gets the row's result. Reads the row once.
template <typename T>
__device__ MaxAndSum<accumulate_t<T>> row_max_and_sum(const T* row, int64_t n,
                                                      accumulate_t<T>* partial) {
  using A = accumulate_t<T>;
  MaxAndSum<A> own;
  visit(
      n, threadIdx.x, blockDim.x, [&](int64_t, A x) { own.add(x); }, row);
  MaxAndSum<A> all;
  all.max = block_reduce(own.max, Max{}, static_cast<A>(-INFINITY), partial);
  all.sum = block_reduce(scaled_to(own.sum, own.max, all.max), Sum{}, A{0}, partial);
  return all;
}

}  // namespace lockstep::kernels::cuda
