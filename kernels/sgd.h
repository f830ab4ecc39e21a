// SGD with momentum, dampening, weight decay and Nesterov, for all parameters of a model in one
// call. Bit for bit PyTorch's on both of its CPU paths.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/cpu.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

template <typename T>
struct SgdParameter {
  T* parameter;
  const T* grad;
  T* momentum_buffer;  ///< null without momentum
  int64_t n;
  bool first;  ///< the momentum buffer is unset: it becomes the gradient, undampened
};

struct SgdScalars {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
};

/// g = maximize ? -grad : grad;  g += weight_decay * p
/// buffer = first ? g : momentum * buffer + (1 - dampening) * g
/// g = nesterov ? g + momentum * buffer : buffer;  p -= lr * g
template <typename T>
void sgd(std::span<const SgdParameter<T>> parameters, const SgdScalars& scalars,
         CpuCapability capability = cpu_capability());

namespace avx2 {
void sgd(const SgdParameter<float>* parameters, int64_t count, const SgdScalars& scalars);
void sgd(const SgdParameter<double>* parameters, int64_t count, const SgdScalars& scalars);
}  // namespace avx2

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

/// As cpu's, without fused multiply-adds; one launch for up to 128 parameters.
template <typename T>
void sgd(std::span<const cpu::SgdParameter<T>> parameters, const cpu::SgdScalars& scalars,
         Stream stream);

}  // namespace lockstep::kernels::cuda
