// Row maximum and exponentials, eight floats at a time. The ragged end of a row is read and written
// through a mask, as minus infinity, whose exponential is zero, so that no scalar tail is needed.
#include <immintrin.h>

#include "kernels/row_exp.h"

namespace lockstep::kernels::cpu::avx2 {
namespace {

constexpr int64_t kLanes = 8;

/// All bits set in the first `count` lanes.
__m256i first_lanes(int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}

__m256 load_or_minus_infinity(const float* row, __m256i mask) {
  const __m256 minus_infinity = _mm256_set1_ps(-__builtin_inff());
  return _mm256_blendv_ps(minus_infinity, _mm256_maskload_ps(row, mask), _mm256_castsi256_ps(mask));
}

/// 2^n for whole n in [-126, 127], by its exponent bits.
__m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/// exp(x) for x <= 0 or NaN, as 2^n exp(r) with n = round(x / ln 2), so |r| <= ln(2) / 2, where
/// eight terms of the Taylor series leave less than 6e-9 of the value. ln 2 is subtracted in two
/// parts, the first of which has so few bits that n times it is exact.
__m256 exp_nonpositive(__m256 x) {
  // Below -104 the result is below half of the smallest subnormal. Those lanes, minus infinity
  // among them, are cleared: to compute their zero would underflow, which costs a hundred cycles.
  const __m256 vanishes = _mm256_cmp_ps(x, _mm256_set1_ps(-104.0f), _CMP_LT_OQ);
  x = _mm256_andnot_ps(vanishes, x);
  const __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);

  __m256 series = _mm256_set1_ps(1.0f / 5040);
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 720));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 120));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 24));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 6));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(0.5f));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f));

  // n reaches -150: two factors, so that a subnormal result is rounded once, at the end.
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i first = _mm256_srai_epi32(whole, 1);
  const __m256i second = _mm256_sub_epi32(whole, first);
  const __m256 value =
      _mm256_mul_ps(_mm256_mul_ps(series, power_of_two(first)), power_of_two(second));
  return _mm256_andnot_ps(vanishes, value);
}

/// Adds eight floats to four doubles.
__m256d add_as_double(__m256d sum, __m256 values) {
  sum = _mm256_add_pd(sum, _mm256_cvtps_pd(_mm256_castps256_ps128(values)));
  return _mm256_add_pd(sum, _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)));
}

}  // namespace

float row_max(const float* row, int64_t n) {
  __m256 best = _mm256_set1_ps(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) best = _mm256_max_ps(_mm256_loadu_ps(row + i), best);
  if (i < n) best = _mm256_max_ps(load_or_minus_infinity(row + i, first_lanes(n - i)), best);
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(best), _mm256_extractf128_ps(best, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

double row_exp_sum(float* exps, const float* row, int64_t n, float max) {
  const __m256 shift = _mm256_set1_ps(max);
  __m256d sum = _mm256_setzero_pd();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 value = exp_nonpositive(_mm256_sub_ps(_mm256_loadu_ps(row + i), shift));
    if (exps != nullptr) _mm256_storeu_ps(exps + i, value);
    sum = add_as_double(sum, value);
  }
  if (i < n) {
    const __m256i mask = first_lanes(n - i);
    const __m256 value =
        exp_nonpositive(_mm256_sub_ps(load_or_minus_infinity(row + i, mask), shift));
    if (exps != nullptr) _mm256_maskstore_ps(exps + i, mask, value);
    sum = add_as_double(sum, value);
  }
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

}  // namespace lockstep::kernels::cpu::avx2
