// Cross-entropy. The forward also computes the gradient when a backward can follow; for the usual
// loss.backward() that gradient is then handed on as it is.
#include <utility>

#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/cross_entropy.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "cross_entropy";

struct Saved {
  Tensor grad;  ///< [N, C] of the loss's dtype: d(sum of the losses)/d(logits)
  bool per_sample = false;
  bool can_hand_on = false;  ///< one loss, and grad has the dtype of the logits
};

DType loss_dtype(DType logits) {
  return logits == DType::Float64 ? DType::Float64 : DType::Float32;
}

void check_inputs(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  require_cpu(kName, logits);
  LOCKSTEP_CHECK(is_floating(logits.dtype()) && logits.dim() == 2 && logits.size(1) > 0, kName,
                 ": logits are ", logits.dtype(), " ", logits.shape(),
                 ", expected a floating [N, C] with C >= 1");
  LOCKSTEP_CHECK(targets.defined() && targets.dtype() == DType::Int64, kName, ": targets are ",
                 targets.defined() ? dtype_name(targets.dtype()) : "undefined",
                 ", expected Int64 class indices");
  LOCKSTEP_CHECK(targets.dim() == 1 && targets.size(0) == logits.size(0), kName, ": logits ",
                 logits.shape(), " need targets [", logits.size(0), "], got ", targets.shape());
  LOCKSTEP_CHECK(targets.device() == logits.device(), kName, ": logits are on ", logits.device(),
                 ", targets on ", targets.device());
  LOCKSTEP_CHECK(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0, kName,
                 ": label_smoothing is ", options.label_smoothing, ", expected 0 to 1");
  if (!options.weight.defined()) return;
  LOCKSTEP_CHECK(options.weight.dtype() == loss_dtype(logits.dtype()) &&
                     options.weight.shape() == Shape({logits.size(1)}) &&
                     options.weight.device() == logits.device(),
                 kName, ": class weights are ", options.weight.dtype(), " ", options.weight.shape(),
                 " on ", options.weight.device(), ", expected ", loss_dtype(logits.dtype()), " [",
                 logits.size(1), "] on ", logits.device());
}

void check_targets(int64_t bad, const Tensor& targets, int64_t classes, int64_t ignore_index) {
  LOCKSTEP_CHECK_KIND(BadData, bad < 0, kName, ": target ", targets.data<int64_t>()[bad],
                      " of sample ", bad, " is out of range: ", classes,
                      " classes need a target from 0 to ", classes - 1, " or ignore_index (",
                      ignore_index, "); check the labels and the number of classes");
}

void backward(autograd::BackwardContext& context, const Saved& saved) {
  const Tensor& grad_loss = context.grad_output();
  // loss.backward() starts from one: nothing to scale.
  if (saved.can_hand_on && grad_loss.item() == 1.0) return context.pass_through(0, saved.grad);
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using A = accumulate_t<T>;
      kernels::cpu::cross_entropy_backward<T>(grad.data<T>(), saved.grad.data<A>(),
                                              grad_loss.data<A>(), saved.grad.size(0),
                                              saved.grad.size(1), saved.per_sample, accumulate);
    });
  });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  check_inputs(logits, targets, options);
  const int64_t n = logits.size(0);
  const int64_t classes = logits.size(1);
  const bool per_sample = options.reduction == Reduction::None;
  const bool recording = autograd::should_record({logits});
  const DType dtype = loss_dtype(logits.dtype());
  Tensor loss = empty(per_sample ? Shape({n}) : Shape{}, dtype, logits.device());
  Saved saved{.per_sample = per_sample, .can_hand_on = !per_sample && dtype == logits.dtype()};
  if (recording) saved.grad = empty(logits.shape(), dtype, logits.device());

  const kernels::cpu::CrossEntropyScalars scalars{.ignore_index = options.ignore_index,
                                                  .label_smoothing = options.label_smoothing,
                                                  .mean = options.reduction == Reduction::Mean,
                                                  .per_sample = per_sample};
  dispatch_floating(kName, logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = accumulate_t<T>;
    const int64_t bad = kernels::cpu::cross_entropy_forward<T>(
        loss.data<A>(), recording ? saved.grad.data<A>() : nullptr, logits.data<T>(),
        targets.data<int64_t>(), options.weight.defined() ? options.weight.data<A>() : nullptr, n,
        classes, scalars);
    check_targets(bad, targets, classes, options.ignore_index);
  });

  if (recording) autograd::record(kName, loss, {logits}, std::move(saved), backward);
  return loss;
}

}  // namespace lockstep::ops
