// mean of all elements: the sum, divided in double before the one rounding.
#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/pointwise.h"
#include "kernels/reduce.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "mean";

struct Saved {};

void backward(autograd::BackwardContext& context, const Saved&) {
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    const double value = context.grad_output().item() / static_cast<double>(grad.numel());
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::fill_or_add<T>(grad.data<T>(), grad.numel(), value, accumulate);
    });
  });
}

}  // namespace

Tensor mean(const Tensor& input) {
  require_cpu(kName, input);
  double result = 0.0;
  dispatch_floating(kName, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    result =
        kernels::cpu::sum<T>(input.data<T>(), input.numel()) / static_cast<double>(input.numel());
  });
  Tensor output = full({}, result, input.dtype(), input.device());
  if (autograd::should_record({input})) {
    autograd::record(kName, output, {input}, Saved{}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
