// One launch over all parameters of a model. The list of pointers travels as an argument of the
// kernel, so nothing is copied to the device; the blocks walk over pieces of all tensors together,
// so a model of many small tensors fills the GPU as well as one large tensor.
#pragma once

#include <span>

#include "kernels/device.cuh"
#include "kernels/stream.h"

namespace lockstep::kernels::cuda {

inline constexpr int kMaxTensors =
    128;  // of one launch: 10 KB of the 32 KB that arguments may take
inline constexpr int64_t kPiece = 4 * kThreads;

/// A tensor that is updated, its gradient, up to S more tensors that are updated with it (or null),
/// and what the update needs to know about this one.
template <typename T, int S, typename Extra>
struct MultiTensorItem {
  T* parameter;
  const T* grad;
  T* state[S];
  int64_t n;
  Extra extra;
};

template <typename Item>
struct MultiTensor {
  Item items[kMaxTensors];
  int64_t first_piece[kMaxTensors + 1];
  int count = 0;
};

/// Updates the W elements from `i` on.
template <int W, typename T, int S, typename Extra, typename Step>
__device__ void update_group(const MultiTensorItem<T, S, Extra>& item, int64_t i,
                             const Step& step) {
  using A = accumulate_t<T>;
  using Values = Group<T, W>;
  Values parameter = *reinterpret_cast<const Values*>(item.parameter + i);
  const Values grad = *reinterpret_cast<const Values*>(item.grad + i);
  Values state[S] = {};
  bool has_state[S];
#pragma unroll
  for (int s = 0; s < S; ++s) {
    has_state[s] = item.state[s] != nullptr && step.reads_state(item);
    if (has_state[s]) state[s] = *reinterpret_cast<const Values*>(item.state[s] + i);
  }
#pragma unroll
  for (int k = 0; k < W; ++k) {
    A values[S];
#pragma unroll
    for (int s = 0; s < S; ++s) values[s] = has_state[s] ? widen(state[s].values[k]) : A{0};
    const A updated = step(widen(parameter.values[k]), widen(grad.values[k]), values, item);
    parameter.values[k] = narrow<T>(updated);
#pragma unroll
    for (int s = 0; s < S; ++s) state[s].values[k] = narrow<T>(values[s]);
  }
  *reinterpret_cast<Values*>(item.parameter + i) = parameter;
#pragma unroll
  for (int s = 0; s < S; ++s) {
    if (item.state[s] != nullptr) *reinterpret_cast<Values*>(item.state[s] + i) = state[s];
  }
}

template <int W, typename T, int S, typename Extra>
__device__ bool is_aligned_item(const MultiTensorItem<T, S, Extra>& item) {
  bool aligned = is_aligned<W>(item.parameter) && is_aligned<W>(item.grad);
#pragma unroll
  for (int s = 0; s < S; ++s) aligned = aligned && is_aligned<W>(item.state[s]);
  return aligned;
}

/// The tensor that a piece belongs to: the last one that begins at or before it.
template <typename Item>
__device__ int find_tensor(const MultiTensor<Item>& tensors, int64_t piece) {
  int low = 0, high = tensors.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (tensors.first_piece[middle] <= piece) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename T, typename Item, typename Step>
__global__ void __launch_bounds__(kThreads)
    multi_tensor_kernel(const __grid_constant__ MultiTensor<Item> tensors, Step step) {
  constexpr int W = kGroupWidth<T>;
  const int64_t pieces = tensors.first_piece[tensors.count];
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int which = find_tensor(tensors, piece);
    const Item& item = tensors.items[which];
    const int64_t begin = (piece - tensors.first_piece[which]) * kPiece;
    const int64_t end = min(item.n, begin + kPiece);
    int64_t done = begin;
    if (is_aligned_item<W>(item)) {
      done = begin + (end - begin) / W * W;
      for (int64_t i = begin + threadIdx.x * W; i < done; i += kThreads * W) {
        update_group<W>(item, i, step);
      }
    }
    for (int64_t i = done + threadIdx.x; i < end; i += kThreads) update_group<1>(item, i, step);
  }
}

/// Calls step(parameter, grad, states, item) for every element of every tensor; it returns the new
/// parameter and changes the states. step.reads_state(item): whether they hold anything yet.
/// make_item(source) describes one tensor.
template <typename T, typename Source, typename MakeItem, typename Step>
void multi_tensor(std::span<const Source> sources, MakeItem make_item, const Step& step,
                  Stream stream) {
  using Item = decltype(make_item(sources.front()));
  MultiTensor<Item> tensors;
  int64_t pieces = 0;
  const auto run = [&] {
    if (pieces == 0) return;
    tensors.first_piece[tensors.count] = pieces;
    launch(multi_tensor_kernel<T, Item, Step>, static_cast<unsigned>(std::min(pieces, kMaxBlocks)),
           kThreads, 0, stream, tensors, step);
    tensors.count = 0;
    pieces = 0;
  };
  for (const Source& source : sources) {
    if (source.n == 0) continue;
    tensors.items[tensors.count] = make_item(source);
    tensors.first_piece[tensors.count] = pieces;
    pieces += (source.n + kPiece - 1) / kPiece;
    if (++tensors.count == kMaxTensors) run();
  }
  run();
}

}  // namespace lockstep::kernels::cuda
