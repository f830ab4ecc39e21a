// Random numbers for AVX2 with FMA. Box-Muller in floats takes PyTorch's polynomials step by step:
// every fused and every separate rounding is part of the result.
#include <immintrin.h>

#include "kernels/mt19937.h"
#include "kernels/random.h"

namespace lockstep::kernels::cpu::avx2 {
namespace {

__m256 all(float value) { return _mm256_set1_ps(value); }

/// ln(x) for x in [2^-24, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), a polynomial in m - 1.
__m256 natural_logarithm(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i exponent = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(126));
  __m256 e = _mm256_cvtepi32_ps(exponent);
  __m256 m =
      _mm256_castsi256_ps(_mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)),
                                          _mm256_set1_epi32(0x3f000000)));  // in [0.5, 1)
  const __m256 small = _mm256_cmp_ps(m, all(0.707106781186547524f), _CMP_LT_OQ);
  e = _mm256_sub_ps(e, _mm256_and_ps(small, all(1.0f)));
  const __m256 f = _mm256_add_ps(_mm256_sub_ps(m, all(1.0f)), _mm256_and_ps(small, m));
  const __m256 z = _mm256_mul_ps(f, f);

  __m256 y = all(7.0376836292e-2f);
  y = _mm256_fmadd_ps(y, f, all(-1.1514610310e-1f));
  y = _mm256_fmadd_ps(y, f, all(1.1676998740e-1f));
  y = _mm256_fmadd_ps(y, f, all(-1.2420140846e-1f));
  y = _mm256_fmadd_ps(y, f, all(1.4249322787e-1f));
  y = _mm256_fmadd_ps(y, f, all(-1.6668057665e-1f));
  y = _mm256_fmadd_ps(y, f, all(2.0000714765e-1f));
  y = _mm256_fmadd_ps(y, f, all(-2.4999993993e-1f));
  y = _mm256_fmadd_ps(y, f, all(3.3333331174e-1f));
  y = _mm256_mul_ps(y, f);
  y = _mm256_fmadd_ps(y, z, _mm256_mul_ps(e, all(-2.12194440e-4f)));
  y = _mm256_fnmadd_ps(z, all(0.5f), y);
  // ln 2 in two parts: e times the large one is exact.
  return _mm256_fmadd_ps(e, all(0.693359375f), _mm256_add_ps(f, y));
}

/// Sine and cosine of x in [0, 2 pi]: the nearest even multiple j of pi/4 is subtracted in three
/// parts; bit 1 of j says which polynomial is which function, bit 2 the signs.
void sine_cosine(__m256 x, __m256* sine, __m256* cosine) {
  __m256i j = _mm256_cvttps_epi32(_mm256_mul_ps(x, all(1.27323954473516f)));  // 4 / pi
  j = _mm256_and_si256(_mm256_add_epi32(j, _mm256_set1_epi32(1)), _mm256_set1_epi32(~1));
  const __m256 octants = _mm256_cvtepi32_ps(j);
  x = _mm256_fmadd_ps(octants, all(-0.78515625f), x);
  x = _mm256_fmadd_ps(octants, all(-2.4187564849853515625e-4f), x);
  x = _mm256_fmadd_ps(octants, all(-3.77489497744594108e-8f), x);
  const __m256 z = _mm256_mul_ps(x, x);

  __m256 c = _mm256_fmadd_ps(all(2.443315711809948e-5f), z, all(-1.388731625493765e-3f));
  c = _mm256_fmadd_ps(c, z, all(4.166664568298827e-2f));
  c = _mm256_mul_ps(c, z);
  c = _mm256_fmsub_ps(c, z, _mm256_mul_ps(z, all(0.5f)));
  c = _mm256_add_ps(c, all(1.0f));
  __m256 s = _mm256_fmadd_ps(all(-1.9515295891e-4f), z, all(8.3321608736e-3f));
  s = _mm256_fmadd_ps(s, z, all(-1.6666654611e-1f));
  s = _mm256_mul_ps(s, z);
  s = _mm256_fmadd_ps(s, x, x);

  // Bit 1 moved to the sign, which is what blendv looks at.
  const __m256 swapped = _mm256_castsi256_ps(_mm256_slli_epi32(j, 30));
  const __m256i four = _mm256_set1_epi32(4);
  const __m256i sine_sign = _mm256_slli_epi32(_mm256_and_si256(j, four), 29);
  const __m256i before = _mm256_sub_epi32(j, _mm256_set1_epi32(2));
  const __m256i cosine_sign = _mm256_slli_epi32(_mm256_andnot_si256(before, four), 29);
  *sine = _mm256_xor_ps(_mm256_blendv_ps(s, c, swapped), _mm256_castsi256_ps(sine_sign));
  *cosine = _mm256_xor_ps(_mm256_blendv_ps(c, s, swapped), _mm256_castsi256_ps(cosine_sign));
}

}  // namespace

void mt19937_twist(uint32_t* state) { twist_in_place(state); }

void mt19937_temper(uint32_t* output, const uint32_t* state, int64_t n) {
  temper_words(output, state, n);
}

void uniform(float* __restrict output, const uint32_t* __restrict words, int64_t n, float range,
             float from) {
  for (int64_t i = 0; i < n; ++i) {
    output[i] = __builtin_fmaf(unit_float(words[i], 24), range, from);
  }
}

void uniform(double* __restrict output, const uint32_t* __restrict words, int64_t n, double range,
             double from) {
  for (int64_t i = 0; i < n; ++i) {
    output[i] = __builtin_fma(unit_double(words[2 * i], words[2 * i + 1]), range, from);
  }
}

void normal_from_uniform(float* data, int64_t n, float mean, float std) {
  const __m256 mean8 = all(mean);
  const __m256 std8 = all(std);
  for (int64_t i = 0; i < n; i += kNormalBlock) {
    const __m256 u1 = _mm256_sub_ps(all(1.0f), _mm256_loadu_ps(data + i));
    const __m256 angle = _mm256_mul_ps(all(6.2831855f), _mm256_loadu_ps(data + i + 8));
    const __m256 radius = _mm256_sqrt_ps(_mm256_mul_ps(all(-2.0f), natural_logarithm(u1)));
    __m256 sine, cosine;
    sine_cosine(angle, &sine, &cosine);
    _mm256_storeu_ps(data + i, _mm256_fmadd_ps(_mm256_mul_ps(radius, cosine), std8, mean8));
    _mm256_storeu_ps(data + i + 8, _mm256_fmadd_ps(_mm256_mul_ps(radius, sine), std8, mean8));
  }
}

}  // namespace lockstep::kernels::cpu::avx2
