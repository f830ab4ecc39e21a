// gelu, the exact one (by erf). It keeps its input.
#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/activation.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "gelu";

struct Saved {
  autograd::SavedTensor input;
};

void backward(autograd::BackwardContext& context, const Saved& saved) {
  const Tensor& input = saved.input.get(kName);
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::gelu_backward<T>(grad.data<T>(), context.grad_output().data<T>(),
                                     input.data<T>(), grad.numel(), accumulate);
    });
  });
}

}  // namespace

Tensor gelu(const Tensor& input) {
  require_cpu(kName, input);
  Tensor output = empty_like(input);
  dispatch_floating(kName, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::gelu_forward<T>(output.data<T>(), input.data<T>(), input.numel());
  });
  if (autograd::should_record({input})) {
    autograd::record(kName, output, {input}, Saved{autograd::SavedTensor(input)}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
