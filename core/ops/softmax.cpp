// softmax and log_softmax over the last dimension. Both keep their output: it is all that their
// backward needs.
#include "kernels/softmax.h"

#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"

namespace lockstep::ops {
namespace {

struct Saved {
  autograd::SavedTensor output;
};

int64_t row_size(const char* name, const Tensor& input) {
  require_cpu(name, input);
  LOCKSTEP_CHECK(is_floating(input.dtype()) && input.dim() >= 1, name, ": input is ", input.dtype(),
                 " ", input.shape(), ", expected a floating tensor of at least one dimension");
  return input.size(-1);
}

int64_t row_count(const Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.numel() / tensor.size(-1);
}

void softmax_backward(autograd::BackwardContext& context, const Saved& saved) {
  const Tensor& output = saved.output.get("softmax");
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating("softmax", grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::softmax_backward<T>(grad.data<T>(), context.grad_output().data<T>(),
                                        output.data<T>(), row_count(output), output.size(-1),
                                        accumulate);
    });
  });
}

void log_softmax_backward(autograd::BackwardContext& context, const Saved& saved) {
  const Tensor& output = saved.output.get("log_softmax");
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating("log_softmax", grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::log_softmax_backward<T>(grad.data<T>(), context.grad_output().data<T>(),
                                            output.data<T>(), row_count(output), output.size(-1),
                                            accumulate);
    });
  });
}

}  // namespace

Tensor softmax(const Tensor& input) {
  const int64_t n = row_size("softmax", input);
  Tensor output = empty_like(input);
  dispatch_floating("softmax", input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::softmax_forward<T>(output.data<T>(), input.data<T>(), row_count(input), n);
  });
  if (autograd::should_record({input})) {
    autograd::record("softmax", output, {input}, Saved{autograd::SavedTensor(output)},
                     softmax_backward);
  }
  return output;
}

Tensor log_softmax(const Tensor& input) {
  const int64_t n = row_size("log_softmax", input);
  Tensor output = empty_like(input);
  dispatch_floating("log_softmax", input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::log_softmax_forward<T>(output.data<T>(), input.data<T>(), row_count(input), n);
  });
  if (autograd::should_record({input})) {
    autograd::record("log_softmax", output, {input}, Saved{autograd::SavedTensor(output)},
                     log_softmax_backward);
  }
  return output;
}

}  // namespace lockstep::ops
