// One loop for every elementwise kernel: 16-bit types go through blocks of floats with the bulk
// conversions, so that the formula in the middle is a plain vectorised loop for every type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"
#include "kernels/cast.h"

namespace lockstep::kernels::cpu {

namespace detail {

inline constexpr int64_t kElementwiseBlock = 256;

template <typename A, typename Formula, typename... Inputs>
void elementwise_loop(A* output, int64_t n, bool accumulate, Formula&& formula,
                      const Inputs*... inputs) {
  if (accumulate) {
    for (int64_t i = 0; i < n; ++i) output[i] = output[i] + formula(inputs[i]...);
  } else {
    for (int64_t i = 0; i < n; ++i) output[i] = formula(inputs[i]...);
  }
}

/// A block of input as floats.
template <typename T>
struct FloatBlock {
  FloatBlock(const T* source, int64_t n) { to_float(values, source, n); }
  float values[kElementwiseBlock];
};

}  // namespace detail

/// output[i] (+)= formula(inputs[i]...), computed in accumulate_t<T> and rounded once. The output
/// may be one of the inputs; otherwise they must not overlap.
template <typename T, typename Formula, typename... Inputs>
void elementwise(T* output, int64_t n, bool accumulate, Formula&& formula,
                 const Inputs*... inputs) {
  if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    detail::elementwise_loop(output, n, accumulate, formula, inputs...);
  } else {
    constexpr int64_t kBlock = detail::kElementwiseBlock;
    float result[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      if (accumulate) to_float(result, output + i, count);
      detail::elementwise_loop(result, count, accumulate, formula,
                               detail::FloatBlock<T>(inputs + i, count).values...);
      from_float(output + i, result, count);
    }
  }
}

}  // namespace lockstep::kernels::cpu
