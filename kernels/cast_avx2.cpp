// Bulk conversions of 16-bit floats, eight at a time. The rest of fewer than eight elements is the
// caller's: code that other sources share must not be compiled here.
#include <immintrin.h>

#include "kernels/cast.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kLanes = 8;

}  // namespace

int64_t to_float_avx2(float* destination, const Half* source, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(half));
  }
  return i;
}

int64_t from_float_avx2(Half* destination, const float* source, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 value = _mm256_loadu_ps(source + i);
    const __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i), half);
  }
  return i;
}

int64_t from_float_avx2(BFloat16* destination, const float* source, int64_t n) {
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i below_half = _mm256_set1_epi32(0x7fff);
  const __m256i quiet = _mm256_set1_epi32(0x400000);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 value = _mm256_loadu_ps(source + i);
    const __m256i bits = _mm256_castps_si256(value);
    // Nearest even: add just under half of the last kept place, one more if that place is odd.
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, below_half), odd);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i chosen = _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, quiet), nan);
    const __m256i high = _mm256_srli_epi32(chosen, 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i), packed);
  }
  return i;
}

}  // namespace lockstep::kernels::cpu
