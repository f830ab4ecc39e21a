// SGD for AVX2 with FMA: the shared arithmetic with fused multiply-adds.
#include "kernels/sgd_step.h"

namespace lockstep::kernels::cpu::avx2 {
namespace {

struct Fused {
  static float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

}  // namespace

void sgd(const SgdParameter<float>* parameters, int64_t count, const SgdScalars& scalars) {
  for (int64_t i = 0; i < count; ++i) sgd_step<Fused>(parameters[i], scalars);
}

void sgd(const SgdParameter<double>* parameters, int64_t count, const SgdScalars& scalars) {
  for (int64_t i = 0; i < count; ++i) sgd_step<Fused>(parameters[i], scalars);
}

}  // namespace lockstep::kernels::cpu::avx2
