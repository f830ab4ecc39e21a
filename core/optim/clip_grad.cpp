// Clipping by the global norm. Norms and the coefficient are rounded to the gradients' type where
// PyTorch rounds them, because the clipped gradients show it in the last bit.
#include <algorithm>
#include <cmath>

#include "core/autograd.h"
#include "core/ops/common.h"
#include "core/optim/optimizer.h"
#include "kernels/grad_norm.h"

namespace lockstep::optim {
namespace {

bool has_grad(const Tensor& parameter) {
  return parameter.leaf() != nullptr &&
         autograd::grad_state(parameter) != autograd::GradState::Undefined;
}

double squared_norm(const Tensor& grad) {
  double sum = 0.0;
  dispatch_floating("clip_grad_norm_", grad.dtype(), [&](auto zero) {
    using T = decltype(zero);
    sum = kernels::cpu::sum_of_squares<T>(grad.data<T>(), grad.numel());
  });
  return sum;
}

/// max_norm / (total + 1e-6), at most 1, in the arithmetic of A; a NaN stays one.
template <typename A>
double coefficient(double total, double max_norm) {
  // A Python number over a tensor is the tensor's reciprocal times the number.
  const A inverse = A{1} / (static_cast<A>(total) + static_cast<A>(1e-6));
  const A result = inverse * static_cast<A>(max_norm);
  return static_cast<double>(result > A{1} ? A{1} : result);
}

}  // namespace

double clip_grad_norm_(const std::vector<nn::NamedTensor>& parameters, double max_norm,
                       bool error_if_nonfinite) {
  LOCKSTEP_CHECK_KIND(Usage, max_norm >= 0.0, "clip_grad_norm_: max_norm is ", max_norm,
                      ", expected 0 or more");
  double sum = 0.0;
  bool all_double = true;
  for (const auto& [name, parameter] : parameters) {
    if (!has_grad(parameter)) continue;
    ops::require_cpu("clip_grad_norm_", parameter);
    double norm = std::sqrt(squared_norm(parameter.grad()));
    if (parameter.dtype() != DType::Float64) {
      norm = static_cast<double>(static_cast<float>(norm));
      all_double = false;
    }
    sum += norm * norm;
  }
  double total = std::sqrt(sum);
  if (!all_double) total = static_cast<double>(static_cast<float>(total));
  LOCKSTEP_CHECK(!error_if_nonfinite || std::isfinite(total),
                 "clip_grad_norm_: the norm of the gradients is ", total,
                 "; nothing was scaled. Lower the learning rate or look for the parameter whose "
                 "gradient is not finite");

  const double factor =
      all_double ? coefficient<double>(total, max_norm) : coefficient<float>(total, max_norm);
  for (const auto& [name, parameter] : parameters) {
    if (!has_grad(parameter)) continue;
    const Tensor grad = parameter.grad();
    dispatch_floating("clip_grad_norm_", grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::scale_in_place<T>(grad.data<T>(), grad.numel(), factor);
    });
    grad.bump_version();
  }
  return total;
}

}  // namespace lockstep::optim
