// Device-only functions of the two 16-bit types, written once for both. Each computes in float (or
// double) and rounds once, as the hardware does.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep::emulation {

/// A double rounded to odd in float: rounding that to 16 bits gives what one rounding of the double
/// gives, because a float has more than two bits to spare.
inline float round_to_odd(double value) {
  float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || !std::isfinite(rounded)) return rounded;
  if ((rounded > value) == (rounded > 0)) rounded = std::nextafter(rounded, 0.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) | 1u);
}

}  // namespace lockstep::emulation

// The product of two 16-bit numbers is exact in float and the sum with a third exact in double.
#define LOCKSTEP_EMULATION_HALF(H, H2, to_float, from_float)                                       \
  inline H __hfma(H a, H b, H c) {                                                                 \
    return from_float(lockstep::emulation::round_to_odd(                                           \
        static_cast<double>(to_float(a)) * to_float(b) + to_float(c)));                            \
  }                                                                                                \
  inline H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); } \
  inline H hexp(H a) { return from_float(std::exp(to_float(a))); }                                 \
  inline H hlog(H a) { return from_float(std::log(to_float(a))); }                                 \
  inline H hsqrt(H a) { return from_float(std::sqrt(to_float(a))); }                               \
  inline H hrsqrt(H a) { return from_float(1.0f / std::sqrt(to_float(a))); }                       \
  inline H hrcp(H a) { return from_float(1.0f / to_float(a)); }                                    \
  inline H htanh(H a) { return from_float(std::tanh(to_float(a))); }                               \
  inline H2 h2exp(H2 a) { return H2(hexp(a.x), hexp(a.y)); }                                       \
  inline H atomicAdd(H* address, H operand) {                                                      \
    return lockstep::emulation::atomic_update(address, [=](H old) { return old + operand; });      \
  }                                                                                                \
  inline H2 atomicAdd(H2* address, H2 operand) {                                                   \
    return H2(atomicAdd(&address->x, operand.x), atomicAdd(&address->y, operand.y));               \
  }
