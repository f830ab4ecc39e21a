// mul by a number.
#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/pointwise.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "mul";

struct Saved {
  double factor = 1.0;
};

void backward(autograd::BackwardContext& context, const Saved& saved) {
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::mul<T>(grad.data<T>(), context.grad_output().data<T>(), grad.numel(),
                           saved.factor, accumulate);
    });
  });
}

}  // namespace

Tensor mul(const Tensor& input, double factor) {
  require_cpu(kName, input);
  Tensor output = empty_like(input);
  dispatch_floating(kName, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::mul<T>(output.data<T>(), input.data<T>(), input.numel(), factor, false);
  });
  if (autograd::should_record({input})) {
    autograd::record(kName, output, {input}, Saved{factor}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
