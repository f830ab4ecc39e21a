// AdamW for AVX2 with FMA: the shared arithmetic with fused multiply-adds. The roots are taken with
// intrinsics because the compiler keeps std::sqrt scalar for the sake of errno.
#include <immintrin.h>

#include "kernels/adamw_step.h"

namespace lockstep::kernels::cpu::avx2 {
namespace {

struct Fused {
  static float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

  static void square_root(float* values, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      _mm256_storeu_ps(values + i, _mm256_sqrt_ps(_mm256_loadu_ps(values + i)));
    }
    for (; i < n; ++i) values[i] = __builtin_sqrtf(values[i]);
  }
  static void square_root(double* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) values[i] = __builtin_sqrt(values[i]);
  }
};

}  // namespace

void adamw(const AdamWParameter<float>& parameter, const AdamWFactors& factors) {
  adamw_step<Fused>(parameter, factors);
}

void adamw(const AdamWParameter<double>& parameter, const AdamWFactors& factors) {
  adamw_step<Fused>(parameter, factors);
}

}  // namespace lockstep::kernels::cpu::avx2
