// Layer normalisation over the last dimension. The backward keeps the input and two numbers a row,
// not the normalised input.
#include "kernels/layer_norm.h"

#include <utility>

#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "layer_norm";

struct Saved {
  autograd::SavedTensor input;
  autograd::SavedTensor weight;
  Tensor mean;  ///< [rows] of the accumulation type, as rstd
  Tensor rstd;
};

void check_vector(const char* which, const Tensor& vector, const Tensor& input) {
  LOCKSTEP_CHECK(vector.defined(), kName, ": ", which, " is undefined, expected [", input.size(-1),
                 "]");
  LOCKSTEP_CHECK(vector.shape() == Shape({input.size(-1)}) && vector.dtype() == input.dtype() &&
                     vector.device() == input.device(),
                 kName, ": ", which, " is ", vector.dtype(), " ", vector.shape(), " on ",
                 vector.device(), ", expected ", input.dtype(), " [", input.size(-1), "] on ",
                 input.device(), " for an input of shape ", input.shape());
}

void check_inputs(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  require_cpu(kName, input);
  LOCKSTEP_CHECK(is_floating(input.dtype()) && input.dim() >= 1 && input.size(-1) > 0, kName,
                 ": input is ", input.dtype(), " ", input.shape(),
                 ", expected a floating [..., D] with D >= 1");
  check_vector("weight", weight, input);
  check_vector("bias", bias, input);
}

template <typename T>
void run_backward(autograd::BackwardContext& context, const Saved& saved) {
  using A = accumulate_t<T>;
  const Tensor& input = saved.input.get(kName);
  const Tensor& weight = saved.weight.get(kName);
  const T* grad_output = context.grad_output().data<T>();
  const A* mean = saved.mean.data<A>();
  const A* rstd = saved.rstd.data<A>();
  const int64_t n = input.size(-1);
  const int64_t rows = input.numel() / n;
  context.grad_input(2, [&](const Tensor& grad, bool accumulate) {
    kernels::cpu::layer_norm_backward_bias<T>(grad.data<T>(), grad_output, rows, n, accumulate);
  });
  context.grad_input(1, [&](const Tensor& grad, bool accumulate) {
    kernels::cpu::layer_norm_backward_weight<T>(grad.data<T>(), grad_output, input.data<T>(), mean,
                                                rstd, rows, n, accumulate);
  });
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    kernels::cpu::layer_norm_backward_input<T>(grad.data<T>(), grad_output, input.data<T>(),
                                               weight.data<T>(), mean, rstd, rows, n, accumulate);
  });
}

void backward(autograd::BackwardContext& context, const Saved& saved) {
  dispatch_floating(kName, context.grad_output().dtype(),
                    [&](auto zero) { run_backward<decltype(zero)>(context, saved); });
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double eps) {
  check_inputs(input, weight, bias);
  const int64_t n = input.size(-1);
  const int64_t rows = input.numel() / n;
  Tensor output = empty_like(input);
  Saved saved;
  dispatch_floating(kName, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = accumulate_t<T>;
    saved.mean = empty({rows}, dtype_of<A>, input.device());
    saved.rstd = empty({rows}, dtype_of<A>, input.device());
    kernels::cpu::layer_norm_forward<T>(output.data<T>(), saved.mean.template data<A>(),
                                        saved.rstd.template data<A>(), input.data<T>(),
                                        weight.data<T>(), bias.data<T>(), rows, n, eps);
  });
  if (autograd::should_record({input, weight, bias})) {
    saved.input = autograd::SavedTensor(input);
    saved.weight = autograd::SavedTensor(weight);
    autograd::record(kName, output, {input, weight, bias}, std::move(saved), backward);
  }
  return output;
}

}  // namespace lockstep::ops
