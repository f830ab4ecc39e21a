// view: another shape on the same elements, of any dtype and on any device.
#include "core/autograd_node.h"
#include "core/ops.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "view";

struct Saved {};

void backward(autograd::BackwardContext& context, const Saved&) {
  context.pass_through(0, context.grad_output());
}

}  // namespace

Tensor view(const Tensor& input, const Shape& shape) {
  LOCKSTEP_CHECK(input.defined(), kName, ": the input is undefined; give it a value first");
  LOCKSTEP_CHECK(shape.numel() == input.numel(), kName, ": shape ", input.shape(), " has ",
                 input.numel(), " elements, ", shape, " asked for has ", shape.numel());
  Tensor output =
      Tensor::from_storage(input.storage(), input.storage_offset(), shape, input.dtype());
  if (autograd::should_record({input})) {
    autograd::record(kName, output, {input}, Saved{}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
