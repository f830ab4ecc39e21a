// The standard normal distribution for gelu: Phi(x) and exp(-x^2 / 2), accurate in the tails. In
// fp32 without branches or calls, so that a loop over it becomes vector code.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::kernels::cpu {

template <typename A>
struct Normal {
  A phi;          ///< Phi(x) = (1 + erf(x / sqrt 2)) / 2
  A exponential;  ///< exp(-x^2 / 2), the density times sqrt(2 pi)
};

inline Normal<double> normal(double x) {
  constexpr double kInvSqrt2 = 0.70710678118654752440;
  return {0.5 * std::erfc(-x * kInvSqrt2), std::exp(-0.5 * x * x)};
}

/// exp(-t) for t in [0, 106]: 2^-n exp(-r) with |r| <= ln(2) / 2 and the Taylor series of exp,
/// whose rest is below 6e-9.
inline float exp_negative(float t) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // 10 bits: its product with n is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 0x1.8p23f;  // adding and subtracting it rounds to an integer
  const float n = (t * kLog2E + kRound) - kRound;
  const float r = (n * kLn2High - t) + n * kLn2Low;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  // 2^-n in two factors, each of which is a normal number; the result may be subnormal.
  const int32_t power = static_cast<int32_t>(n);
  const int32_t half = power / 2;
  const float scale = std::bit_cast<float>((127 - half) << 23);
  const float rest = std::bit_cast<float>((127 - (power - half)) << 23);
  return series * scale * rest;
}

/// With a = |x|: Phi(-a) = exp(-a^2 / 2) R(a), where R falls slowly. R(a) (1 + a) is a polynomial
/// in (a - 4) / (a + 4), through its values at the Chebyshev nodes of [0, 14.5]; its relative error
/// is 2.4e-9. Beyond 14.5 Phi(-a) is below the smallest float.
inline Normal<float> normal(float x) {
  // The minimum and, below, the choice are taken of the bits: a comparison of floats would become a
  // branch and keep the loop from being vectorised.
  const int32_t bits = std::bit_cast<int32_t>(x);
  const float a = std::bit_cast<float>(
      std::min(bits & std::numeric_limits<int32_t>::max(), std::bit_cast<int32_t>(14.5f)));
  const float z = (a - 4.0f) / (a + 4.0f);
  float ratio = -7.393246343e-05f;
  ratio = ratio * z - 6.572075496e-05f;
  ratio = ratio * z + 6.912335239e-04f;
  ratio = ratio * z - 3.004970011e-04f;
  ratio = ratio * z - 5.002521082e-03f;
  ratio = ratio * z + 1.793954811e-02f;
  ratio = ratio * z - 3.219772809e-02f;
  ratio = ratio * z + 2.860002752e-02f;
  ratio = ratio * z + 1.399963041e-02f;
  ratio = ratio * z - 9.670346791e-02f;
  ratio = ratio * z + 4.720532065e-01f;
  const float exponential = exp_negative(0.5f * a * a);
  const float tail = exponential * (ratio / (1.0f + a));
  const int32_t negative = bits >> 31;  // all ones or zero
  const int32_t phi =
      (std::bit_cast<int32_t>(tail) & negative) | (std::bit_cast<int32_t>(1.0f - tail) & ~negative);
  return {std::bit_cast<float>(phi), exponential};
}

}  // namespace lockstep::kernels::cpu
