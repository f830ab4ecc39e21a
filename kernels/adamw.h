// AdamW for all parameters of a model in one call. Bit for bit PyTorch's on both of its CPU paths.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/cpu.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

template <typename T>
struct AdamWParameter {
  T* parameter;
  const T* grad;
  T* exp_avg;
  T* exp_avg_sq;
  T* max_exp_avg_sq;  ///< null without amsgrad
  int64_t n;
  int64_t step;  ///< 1 at this parameter's first update
};

struct AdamWScalars {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool maximize = false;
};

/// g = maximize ? -grad : grad;  p *= 1 - lr * weight_decay
/// m = lerp(m, g, 1 - beta1);  v = beta2 * v + (1 - beta2) * g^2;  u = amsgrad ? max(u, v) : v
/// p -= lr / (1 - beta1^step) * m / (sqrt(u) / sqrt(1 - beta2^step) + eps)
template <typename T>
void adamw(std::span<const AdamWParameter<T>> parameters, const AdamWScalars& scalars,
           CpuCapability capability = cpu_capability());

/// What depends on the step alone, computed in double, as PyTorch does.
struct AdamWFactors {
  double decay;        ///< 1 - lr * weight_decay
  double grad_weight;  ///< 1 - beta1
  double beta2;
  double square_weight;    ///< 1 - beta2
  double root_correction;  ///< sqrt(1 - beta2^step)
  double eps;
  double step_size;  ///< -lr / (1 - beta1^step)
  bool maximize;
};

namespace avx2 {
void adamw(const AdamWParameter<float>& parameter, const AdamWFactors& factors);
void adamw(const AdamWParameter<double>& parameter, const AdamWFactors& factors);
}  // namespace avx2

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

/// As cpu's, without fused multiply-adds; one launch for up to 128 parameters.
template <typename T>
void adamw(std::span<const cpu::AdamWParameter<T>> parameters, const cpu::AdamWScalars& scalars,
           Stream stream);

}  // namespace lockstep::kernels::cuda
