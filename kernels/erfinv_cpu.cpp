// erfinv on the CPU: it runs once a weight, at construction, so it is plain code; only its rounding
// must be that of the path.
#include "kernels/erfinv.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace lockstep::kernels::cpu {
namespace {

/// coefficients[0] + coefficients[1] x + ..., by Horner's rule.
template <typename T>
T polynomial(std::span<const double> coefficients, T x, bool fused) {
  T sum = static_cast<T>(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) {
    const T coefficient = static_cast<T>(coefficients[i]);
    sum = fused ? std::fma(sum, x, coefficient) : sum * x + coefficient;
  }
  return sum;
}

// The coefficients are MATLAB's (erfinv.m), which PyTorch uses.
constexpr double kCentralNumerator[] = {0.886226899, -1.645349621, 0.914624893, -0.140543331};
constexpr double kCentralDenominator[] = {1.0, -2.118377725, 1.442710462, -0.329097515,
                                          0.012229801};
constexpr double kTailNumerator[] = {-1.970840454, -1.624906493, 3.429567803, 1.641345311};
constexpr double kTailDenominator[] = {1.0, 3.543889200, 1.637067800};

template <typename T>
T erfinv_of(T y, bool fused) {
  constexpr T kCentral = static_cast<T>(0.7);
  const T magnitude = std::abs(y);
  if (magnitude > 1) return std::numeric_limits<T>::quiet_NaN();
  if (magnitude == 1) return std::copysign(std::numeric_limits<T>::infinity(), y);
  T x;
  if (magnitude <= kCentral) {
    const T z = y * y;
    x = y * polynomial<T>(kCentralNumerator, z, fused) /
        polynomial<T>(kCentralDenominator, z, fused);
  } else {
    const T z = std::sqrt(-std::log((T{1} - magnitude) / T{2}));
    x = std::copysign(polynomial<T>(kTailNumerator, z, fused), y) /
        polynomial<T>(kTailDenominator, z, fused);
  }
  const T slope = T{2} / static_cast<T>(std::sqrt(std::numbers::pi));  // erf'(x) / exp(-x^2)
  for (int step = 0; step < 2; ++step) x -= (std::erf(x) - y) / (slope * std::exp(-x * x));
  return x;
}

}  // namespace

template <typename T>
void erfinv(T* data, int64_t n, CpuCapability capability) {
  const bool fused = capability == CpuCapability::Avx2;
  for (int64_t i = 0; i < n; ++i) data[i] = erfinv_of(data[i], fused);
}

template void erfinv<float>(float*, int64_t, CpuCapability);
template void erfinv<double>(double*, int64_t, CpuCapability);

}  // namespace lockstep::kernels::cpu
