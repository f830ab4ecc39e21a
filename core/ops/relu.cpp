// relu. It keeps its output, which a following linear keeps as its input anyway.
#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/activation.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "relu";

struct Saved {
  autograd::SavedTensor output;
};

void backward(autograd::BackwardContext& context, const Saved& saved) {
  const Tensor& output = saved.output.get(kName);
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::relu_backward<T>(grad.data<T>(), context.grad_output().data<T>(),
                                     output.data<T>(), grad.numel(), accumulate);
    });
  });
}

}  // namespace

Tensor relu(const Tensor& input) {
  require_cpu(kName, input);
  Tensor output = empty_like(input);
  dispatch_floating(kName, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::relu_forward<T>(output.data<T>(), input.data<T>(), input.numel());
  });
  if (autograd::should_record({input})) {
    autograd::record(kName, output, {input}, Saved{autograd::SavedTensor(output)}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
