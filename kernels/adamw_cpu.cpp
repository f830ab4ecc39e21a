// AdamW on the CPU: the factors of the step, the portable path, and the choice between it and AVX2.
// The 16-bit types are computed in fp32 and rounded when stored, the same on both paths.
#include <cmath>
#include <type_traits>

#include "kernels/adamw_step.h"

namespace lockstep::kernels::cpu {
namespace {

struct UnfusedRoot : Unfused {
  template <typename A>
  static void square_root(A* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) values[i] = std::sqrt(values[i]);
  }
};

AdamWFactors factors_of(const AdamWScalars& scalars, int64_t step) {
  const double t = static_cast<double>(step);
  return {.decay = 1.0 - scalars.lr * scalars.weight_decay,
          .grad_weight = 1.0 - scalars.beta1,
          .beta2 = scalars.beta2,
          .square_weight = 1.0 - scalars.beta2,
          .root_correction = std::sqrt(1.0 - std::pow(scalars.beta2, t)),
          .eps = scalars.eps,
          .step_size = -(scalars.lr / (1.0 - std::pow(scalars.beta1, t))),
          .maximize = scalars.maximize};
}

}  // namespace

template <typename T>
void adamw(std::span<const AdamWParameter<T>> parameters, const AdamWScalars& scalars,
           CpuCapability capability) {
  AdamWFactors factors{};
  int64_t step = 0;  // of the factors: nearly always the same for all parameters
  for (const AdamWParameter<T>& item : parameters) {
    if (item.step != step) factors = factors_of(scalars, step = item.step);
    if constexpr (std::is_same_v<T, accumulate_t<T>>) {
      if (capability == CpuCapability::Avx2) {
        avx2::adamw(item, factors);
        continue;
      }
    }
    adamw_step<UnfusedRoot>(item, factors);
  }
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void adamw<T>(std::span<const AdamWParameter<T>>, const AdamWScalars&, CpuCapability);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
