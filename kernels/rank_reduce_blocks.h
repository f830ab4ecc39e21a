// The loops of rank_reduce, shared by the portable and the AVX2 path: a block of elements is summed
// in a small local array, which the compiler knows to overlap with nothing, so the loops vectorise
// although outputs are inputs. Lanes is a type of the including file (in its unnamed namespace), so
// that each path keeps its own copy; it converts 16-bit floats.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/rank_reduce.h"

namespace lockstep::kernels::cpu {

inline constexpr int64_t kReduceBlock = 256;

/// Int64 and UInt8 sums wrap around, which only unsigned arithmetic may.
template <typename T>
struct ReduceType {
  using type = accumulate_t<T>;
};
template <>
struct ReduceType<int64_t> {
  using type = uint64_t;
};

template <typename Lanes, typename T>
struct RankReduceBlocks {
  using A = typename ReduceType<T>::type;

  /// The elements of T as numbers to compute with.
  static const A* load(const void* input, int64_t begin, int64_t count, A* buffer) {
    const T* x = static_cast<const T*>(input) + begin;
    if constexpr (is_reduced_floating(dtype_of<T>)) {
      Lanes::widen(buffer, x, count);
      return buffer;
    } else {
      return reinterpret_cast<const A*>(x);  // T itself, or its unsigned twin
    }
  }

  static void store(void* output, int64_t begin, int64_t count, const A* sum) {
    T* y = static_cast<T*>(output) + begin;
    if constexpr (is_reduced_floating(dtype_of<T>)) {
      Lanes::narrow(y, sum, count);
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(sum[i]);
    }
  }

  template <RankReduceOp kOp>
  static A begin_with(A x, A scale) {
    return kOp == RankReduceOp::Average ? static_cast<A>(x * scale) : x;
  }

  template <RankReduceOp kOp>
  static A combine(A sum, A x, A scale) {
    if constexpr (kOp == RankReduceOp::Sum) return static_cast<A>(sum + x);
    if constexpr (kOp == RankReduceOp::Average) return static_cast<A>(sum + x * scale);
    // A NaN compares unequal to itself: it is taken, and nothing replaces it.
    if constexpr (kOp == RankReduceOp::Max) return precedes(sum, x) || x != x ? x : sum;
    if constexpr (kOp == RankReduceOp::Min) return precedes(x, sum) || x != x ? x : sum;
  }

  /// a < b; Int64 in its signed order.
  static bool precedes(A a, A b) {
    if constexpr (dtype_of<T> == DType::Int64) {
      return static_cast<int64_t>(a) < static_cast<int64_t>(b);
    } else {
      return a < b;
    }
  }

  template <RankReduceOp kOp>
  static void reduce(void* const* outputs, const void* const* inputs, int num_outputs,
                     int num_inputs, int64_t n) {
    const A scale = static_cast<A>(A{1} / static_cast<A>(num_inputs));
    alignas(64) A sum[kReduceBlock];
    alignas(64) A buffers[2][kReduceBlock];
    for (int64_t begin = 0; begin < n; begin += kReduceBlock) {
      const int64_t count = n - begin < kReduceBlock ? n - begin : kReduceBlock;
      const A* first = load(inputs[0], begin, count, buffers[0]);
      if (num_inputs == 1) {
        for (int64_t i = 0; i < count; ++i) sum[i] = begin_with<kOp>(first[i], scale);
      } else {
        const A* second = load(inputs[1], begin, count, buffers[1]);
        for (int64_t i = 0; i < count; ++i) {
          sum[i] = combine<kOp>(begin_with<kOp>(first[i], scale), second[i], scale);
        }
      }
      for (int r = 2; r < num_inputs; ++r) {
        const A* x = load(inputs[r], begin, count, buffers[0]);
        for (int64_t i = 0; i < count; ++i) sum[i] = combine<kOp>(sum[i], x[i], scale);
      }
      for (int r = 0; r < num_outputs; ++r) store(outputs[r], begin, count, sum);
    }
  }

  static void run(void* const* outputs, const void* const* inputs, int num_outputs, int num_inputs,
                  int64_t n, RankReduceOp op) {
    switch (op) {
      case RankReduceOp::Sum:
        return reduce<RankReduceOp::Sum>(outputs, inputs, num_outputs, num_inputs, n);
      case RankReduceOp::Average:
        return reduce<RankReduceOp::Average>(outputs, inputs, num_outputs, num_inputs, n);
      case RankReduceOp::Max:
        return reduce<RankReduceOp::Max>(outputs, inputs, num_outputs, num_inputs, n);
      case RankReduceOp::Min:
        return reduce<RankReduceOp::Min>(outputs, inputs, num_outputs, num_inputs, n);
    }
  }
};

}  // namespace lockstep::kernels::cpu
