// SGD on the CPU: the portable path, and the choice between it and AVX2. The 16-bit types are
// computed in fp32 and rounded at the end of the step, the same on both paths.
#include "kernels/sgd.h"

#include <type_traits>

#include "kernels/sgd_step.h"

namespace lockstep::kernels::cpu {

template <typename T>
void sgd(std::span<const SgdParameter<T>> parameters, const SgdScalars& scalars,
         CpuCapability capability) {
  if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    if (capability == CpuCapability::Avx2) {
      return avx2::sgd(parameters.data(), static_cast<int64_t>(parameters.size()), scalars);
    }
  }
  for (const SgdParameter<T>& item : parameters) sgd_step<Unfused>(item, scalars);
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void sgd<T>(std::span<const SgdParameter<T>>, const SgdScalars&, CpuCapability);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
