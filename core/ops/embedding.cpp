// Embedding: rows of a table. Only the indices are kept; the gradient goes straight into the
// table's gradient, row by row.
#include "kernels/embedding.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "embedding";

struct Saved {
  autograd::SavedTensor indices;
};

void check_inputs(const Tensor& indices, const Tensor& weight) {
  require_cpu(kName, weight);
  LOCKSTEP_CHECK(is_floating(weight.dtype()) && weight.dim() == 2, kName, ": weight is ",
                 weight.dtype(), " ", weight.shape(), ", expected a floating [V, D]");
  LOCKSTEP_CHECK(indices.defined() && indices.dtype() == DType::Int64, kName, ": indices are ",
                 indices.defined() ? dtype_name(indices.dtype()) : "undefined", ", expected Int64");
  LOCKSTEP_CHECK(indices.dim() < Shape::kMaxDims, kName, ": indices of shape ", indices.shape(),
                 " have too many dimensions, at most ", Shape::kMaxDims - 1, " are supported");
  LOCKSTEP_CHECK(indices.device() == weight.device(), kName, ": weight is on ", weight.device(),
                 ", indices on ", indices.device());
}

/// indices.shape + [width]
Shape output_shape(const Tensor& indices, int64_t width) {
  std::array<int64_t, Shape::kMaxDims> extents{};
  std::copy(indices.shape().begin(), indices.shape().end(), extents.begin());
  extents[static_cast<size_t>(indices.dim())] = width;
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(indices.dim() + 1)));
}

void backward(autograd::BackwardContext& context, const Saved& saved) {
  const Tensor& indices = saved.indices.get(kName);
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using A = accumulate_t<T>;
      Tensor sums;
      if (is_reduced_floating(grad.dtype())) sums = empty(grad.shape(), dtype_of<A>, grad.device());
      kernels::cpu::embedding_backward<T>(grad.data<T>(), sums.defined() ? sums.data<A>() : nullptr,
                                          context.grad_output().data<T>(), indices.data<int64_t>(),
                                          indices.numel(), grad.size(0), grad.size(1), accumulate);
    });
  });
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight) {
  check_inputs(indices, weight);
  Tensor output = empty(output_shape(indices, weight.size(1)), weight.dtype(), weight.device());
  dispatch_floating(kName, weight.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t bad = kernels::cpu::embedding_forward<T>(output.data<T>(), weight.data<T>(),
                                                           indices.data<int64_t>(), indices.numel(),
                                                           weight.size(0), weight.size(1));
    LOCKSTEP_CHECK_KIND(BadData, bad < 0, kName, ": index ", indices.data<int64_t>()[bad],
                        " at position ", bad, " is out of range: the table has ", weight.size(0),
                        " rows");
  });
  if (autograd::should_record({weight})) {
    autograd::record(kName, output, {weight}, Saved{autograd::SavedTensor(indices)}, backward);
  }
  return output;
}

}  // namespace lockstep::ops
