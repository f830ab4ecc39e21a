// Fill, add and multiply on the CPU.
#include "kernels/pointwise.h"

#include <algorithm>
#include <cstring>

#include "kernels/cast.h"
#include "kernels/elementwise.h"

namespace lockstep::kernels::cpu {

void fill(void* destination, DType dtype, double value, int64_t n) {
  dispatch_all(dtype, [&](auto element) {
    convert(&element, dtype, &value, DType::Float64, 1);
    std::fill_n(static_cast<decltype(element)*>(destination), n, element);
  });
}

template <typename T>
void fill_or_add(T* destination, int64_t n, double value, bool accumulate) {
  using A = accumulate_t<T>;
  const A addend = static_cast<A>(value);
  if (!accumulate) {
    std::fill_n(destination, n, static_cast<T>(addend));
    return;
  }
  elementwise(
      destination, n, false, [addend](A x) { return x + addend; },
      static_cast<const T*>(destination));
}

template <typename T>
void add(T* output, const T* a, const T* b, int64_t n) {
  using A = accumulate_t<T>;
  elementwise(
      output, n, false, [](A x, A y) { return x + y; }, a, b);
}

template <typename T>
void mul(T* output, const T* input, int64_t n, double factor, bool accumulate) {
  using A = accumulate_t<T>;
  const A multiplier = static_cast<A>(factor);
  elementwise(
      output, n, accumulate, [multiplier](A x) { return x * multiplier; }, input);
}

#define LOCKSTEP_INSTANTIATE(T)                            \
  template void fill_or_add<T>(T*, int64_t, double, bool); \
  template void add<T>(T*, const T*, const T*, int64_t);   \
  template void mul<T>(T*, const T*, int64_t, double, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
