// rank_reduce for AVX2 with F16C: the shared loops in wider registers, and 16-bit floats converted
// eight at a time.
#include <immintrin.h>

#include "kernels/rank_reduce_blocks.h"

namespace lockstep::kernels::cpu::avx2 {
namespace {

struct Lanes {
  static void widen(float* out, const Half* in, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
    }
    for (; i < n; ++i) out[i] = _cvtsh_ss(in[i].bits);
  }

  static void narrow(Half* out, const float* in, int64_t n) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), kNearest);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bits);
    }
    for (; i < n; ++i) out[i].bits = _cvtss_sh(in[i], kNearest);
  }

  static void widen(float* out, const BFloat16* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t bits = static_cast<uint32_t>(in[i].bits) << 16;
      __builtin_memcpy(out + i, &bits, sizeof(bits));
    }
  }

  /// As bfloat16_bits_from_float, without branches.
  static void narrow(BFloat16* out, const float* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      __builtin_memcpy(&bits, in + i, sizeof(bits));
      const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
      const uint32_t quiet = (bits >> 16) | 0x40u;
      out[i].bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
  }
};

}  // namespace

#define LOCKSTEP_RANK_REDUCE_AVX2(T)                                                           \
  void rank_reduce(const T*, void* const* outputs, const void* const* inputs, int num_outputs, \
                   int num_inputs, int64_t n, RankReduceOp op) {                               \
    RankReduceBlocks<Lanes, T>::run(outputs, inputs, num_outputs, num_inputs, n, op);          \
  }
LOCKSTEP_RANK_REDUCE_AVX2(float)
LOCKSTEP_RANK_REDUCE_AVX2(double)
LOCKSTEP_RANK_REDUCE_AVX2(Half)
LOCKSTEP_RANK_REDUCE_AVX2(BFloat16)
LOCKSTEP_RANK_REDUCE_AVX2(int64_t)
LOCKSTEP_RANK_REDUCE_AVX2(uint8_t)
#undef LOCKSTEP_RANK_REDUCE_AVX2

}  // namespace lockstep::kernels::cpu::avx2
