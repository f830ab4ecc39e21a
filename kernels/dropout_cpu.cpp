// Dropout on the CPU. A dropped element is multiplied by zero rather than replaced by it: infinity
// and NaN are not hidden, as in PyTorch.
#include "kernels/dropout.h"

#include "core/base/dtype.h"

namespace lockstep::kernels::cpu {
namespace {

/// The factor of a kept element, with the rounding of 1 / keep in the element type.
template <typename T>
accumulate_t<T> kept_factor(double keep) {
  using A = accumulate_t<T>;
  return static_cast<A>(static_cast<T>(A{1} / static_cast<A>(keep)));
}

}  // namespace

template <typename T>
void dropout_forward(T* output, uint8_t* mask, const T* input, const uint32_t* words, int64_t n,
                     double keep) {
  using A = accumulate_t<T>;
  const A factors[2] = {A{0}, kept_factor<T>(keep)};
  constexpr uint64_t kFractionBits = (uint64_t{1} << 53) - 1;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = (uint64_t{words[2 * i]} << 32) | words[2 * i + 1];
    const double uniform = static_cast<double>(bits & kFractionBits) * 0x1p-53;
    mask[i] = uniform < keep ? 1 : 0;
    output[i] = static_cast<T>(static_cast<A>(input[i]) * factors[mask[i]]);
  }
}

template <typename T>
void dropout_backward(T* grad_input, const T* grad_output, const uint8_t* mask, int64_t n,
                      double keep, bool accumulate) {
  using A = accumulate_t<T>;
  const A factor = kept_factor<T>(keep);
  for (int64_t i = 0; i < n; ++i) {
    const A value = static_cast<A>(grad_output[i]) * (static_cast<A>(mask[i]) * factor);
    grad_input[i] = static_cast<T>(accumulate ? static_cast<A>(grad_input[i]) + value : value);
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                               \
  template void dropout_forward<T>(T*, uint8_t*, const T*, const uint32_t*, int64_t, double); \
  template void dropout_backward<T>(T*, const T*, const uint8_t*, int64_t, double, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
