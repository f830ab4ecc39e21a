// Sum of squares and scaling on the CPU.
#include "kernels/grad_norm.h"

#include "core/base/dtype.h"
#include "kernels/lane_sum.h"

namespace lockstep::kernels::cpu {

template <typename T>
double sum_of_squares(const T* values, int64_t n) {
  return lane_sum(n, [&](int64_t i) {
    const double value = static_cast<double>(static_cast<accumulate_t<T>>(values[i]));
    return value * value;
  });
}

template <typename T>
void scale_in_place(T* values, int64_t n, double factor) {
  using A = accumulate_t<T>;
  const A scale = static_cast<A>(factor);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(static_cast<A>(values[i]) * scale);
}

#define LOCKSTEP_INSTANTIATE(T)                         \
  template double sum_of_squares<T>(const T*, int64_t); \
  template void scale_in_place<T>(T*, int64_t, double);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
