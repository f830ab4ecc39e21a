// add. Its gradient is handed on to both inputs as it is.
#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/pointwise.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "add";

struct Saved {};

void backward(autograd::BackwardContext& context, const Saved&) {
  context.pass_through(1, context.grad_output());
  context.pass_through(0, context.grad_output());
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  require_cpu(kName, a);
  require_like(kName, "b", b, "a", a);
  LOCKSTEP_CHECK(a.shape() == b.shape(), kName, ": a has shape ", a.shape(), ", b ", b.shape(),
                 ", expected equal shapes (nothing is broadcast); use view()");
  Tensor output = empty_like(a);
  dispatch_floating(kName, a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::add<T>(output.data<T>(), a.data<T>(), b.data<T>(), a.numel());
  });
  if (autograd::should_record({a, b})) {
    autograd::record(kName, output, {a, b}, Saved{}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
