// linear and linear_relu. Each keeps only what a gradient that is asked for needs: the input for
// the weight's, the weight for the input's, and (with relu) the output, to mask by.
#include "kernels/linear.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "kernels/activation.h"

namespace lockstep::ops {
namespace {

using kernels::cpu::Epilogue;

struct Saved {
  const char* name = "linear";
  autograd::SavedTensor input;
  autograd::SavedTensor weight;
  autograd::SavedTensor output;  ///< only with relu
};

void check_inputs(const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  require_cpu(name, input);
  require_floating(name, input);
  require_like(name, "weight", weight, "input", input);
  LOCKSTEP_CHECK(weight.dim() == 2, name, ": weight has shape ", weight.shape(),
                 ", expected [out_features, in_features]");
  LOCKSTEP_CHECK(input.dim() >= 1 && input.size(-1) == weight.size(1), name, ": input has shape ",
                 input.shape(), ", weight ", weight.shape(), ": expected an input of [N, ",
                 weight.size(1), "]");
  if (!bias.defined()) return;
  require_like(name, "bias", bias, "input", input);
  LOCKSTEP_CHECK(bias.shape() == Shape({weight.size(0)}), name, ": bias has shape ", bias.shape(),
                 ", weight ", weight.shape(), ": expected a bias of [", weight.size(0), "]");
}

/// input.shape with its last extent replaced.
Shape output_shape(const Shape& input, int64_t out) {
  std::array<int64_t, Shape::kMaxDims> extents{};
  std::copy(input.begin(), input.end(), extents.begin());
  extents[static_cast<size_t>(input.dim() - 1)] = out;
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(input.dim())));
}

/// Product of all extents but the last.
int64_t row_count(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < shape.dim(); ++d) rows *= shape[d];
  return rows;
}

template <typename T>
void run_backward(autograd::BackwardContext& context, const Saved& saved, const Tensor& grad) {
  const T* const grad_output = grad.data<T>();
  const int64_t n = row_count(grad.shape());
  const int64_t out = grad.size(-1);
  context.grad_input(2, [&](const Tensor& grad_bias, bool accumulate) {
    kernels::cpu::linear_backward_bias<T>(grad_bias.data<T>(), grad_output, n, out, accumulate);
  });
  context.grad_input(1, [&](const Tensor& grad_weight, bool accumulate) {
    const Tensor& input = saved.input.get(saved.name);
    kernels::cpu::linear_backward_weight<T>(grad_weight.data<T>(), grad_output, input.data<T>(), n,
                                            input.size(-1), out, accumulate);
  });
  context.grad_input(0, [&](const Tensor& grad_input, bool accumulate) {
    const Tensor& weight = saved.weight.get(saved.name);
    kernels::cpu::linear_backward_input<T>(grad_input.data<T>(), grad_output, weight.data<T>(), n,
                                           weight.size(1), out, accumulate);
  });
}

void backward(autograd::BackwardContext& context, const Saved& saved) {
  dispatch_floating(saved.name, context.grad_output().dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (!saved.output.defined()) return run_backward<T>(context, saved, context.grad_output());
    const Tensor& output = saved.output.get(saved.name);
    const Tensor& grad = context.mutable_grad_output();
    kernels::cpu::relu_backward<T>(grad.data<T>(), grad.data<T>(), output.data<T>(), grad.numel(),
                                   false);
    run_backward<T>(context, saved, grad);
  });
}

Tensor run(const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
           Epilogue epilogue) {
  check_inputs(name, input, weight, bias);
  const int64_t out = weight.size(0);
  Tensor output = empty(output_shape(input.shape(), out), input.dtype(), input.device());
  dispatch_floating(name, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::linear_forward<T>(output.data<T>(), input.data<T>(), weight.data<T>(),
                                    bias.defined() ? bias.data<T>() : nullptr,
                                    row_count(input.shape()), weight.size(1), out, epilogue);
  });
  if (autograd::should_record({input, weight, bias})) {
    Saved saved{.name = name};
    if (weight.requires_grad()) saved.input = autograd::SavedTensor(input);
    if (input.requires_grad()) saved.weight = autograd::SavedTensor(weight);
    if (epilogue == Epilogue::Relu) saved.output = autograd::SavedTensor(output);
    autograd::record(name, output, {input, weight, bias}, std::move(saved), backward);
  }
  return output;
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return run("linear", input, weight, bias, Epilogue::None);
}

Tensor linear_relu(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return run("linear_relu", input, weight, bias, Epilogue::Relu);
}

}  // namespace lockstep::ops
