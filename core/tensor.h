// Tensor: a contiguous row-major view of a storage, with an optional place in the autograd graph.
// A Tensor is a handle: copies share elements and gradient, as in PyTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/shape.h"
#include "core/storage.h"

namespace lockstep {

namespace autograd {
class Node;
struct Leaf;
}  // namespace autograd

class Tensor {
 public:
  /// Undefined: no elements, no shape. Only defined(), assignment and comparison are valid.
  Tensor() = default;

  /// A view of `shape` elements of `dtype` that begins `offset` elements into the storage. Not
  /// differentiable; this is how a gradient becomes a slice of a flat bucket.
  /// Throws Error when the view does not fit or is not aligned to its dtype.
  static Tensor from_storage(Storage storage, int64_t offset, const Shape& shape, DType dtype);

  /// Copies the values to a new CPU tensor. Throws Error unless values.size() == shape.numel().
  template <typename T>
  static Tensor from_values(std::span<const T> values, const Shape& shape);
  template <typename T>
  static Tensor from_values(const std::vector<T>& values, const Shape& shape) {
    return from_values(std::span<const T>(values), shape);
  }

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  int dim() const { return shape().dim(); }
  int64_t size(int dim) const { return shape().size(dim); }
  int64_t numel() const;
  int64_t nbytes() const;
  DType dtype() const;
  Device device() const;
  const Storage& storage() const;
  /// Elements from the storage's beginning to this view's.
  int64_t storage_offset() const;

  /// The first element. Writing through it is invisible to the version counter: bump_version()
  /// after.
  void* raw_data() const;
  /// Checked: throws Error unless T is the tensor's dtype.
  template <typename T>
  T* data() const;

  /// The only element as a double (waits for the device). Throws Error unless numel() == 1.
  double item() const;
  /// All elements, row-major, copied to the host. Throws Error unless T is the dtype.
  template <typename T>
  std::vector<T> to_vector() const;

  // --- copies and views -------------------------------------------------------------------------
  Tensor to(Device device) const;  ///< itself when already there, else a copy; not differentiable
  Tensor to(
      DType dtype) const;  ///< itself when already so, else a converted copy; not differentiable
  Tensor clone() const;    ///< a copy of the elements outside the graph
  Tensor detach() const;   ///< the same elements outside the graph
  /// The same elements under another shape (differentiable). One extent may be -1.
  Tensor view(std::span<const int64_t> sizes) const;
  Tensor view(std::initializer_list<int64_t> sizes) const {
    return view(std::span(sizes.begin(), sizes.size()));
  }
  /// Rows [begin, end) of dimension 0, sharing elements; not differentiable.
  Tensor slice(int64_t begin, int64_t end) const;

  // --- in place: they bump the version; on a tensor that is in the graph they throw Error while
  // grad
  // --- mode is on (use a NoGradGuard) -----------------------------------------------------------
  Tensor& copy_(const Tensor& source);  ///< same shape; converts dtype and device
  Tensor& fill_(double value);
  Tensor& zero_();
  void bump_version() const { storage().bump_version(); }

  // --- autograd ---------------------------------------------------------------------------------
  bool requires_grad() const;
  /// Makes a leaf of this tensor (floating dtypes only).
  Tensor& requires_grad_(bool requires_grad = true);
  bool is_leaf() const;
  /// The accumulated gradient of a leaf, or an undefined tensor.
  Tensor grad() const;
  /// dL/dself = `gradient` (ones for a scalar), then the chain rule to every leaf. See autograd.h.
  void backward(const Tensor& gradient = Tensor()) const;

  /// Graph access for autograd, ops and dist; users need none of it.
  const std::shared_ptr<autograd::Node>& grad_fn() const;
  void set_grad_fn(std::shared_ptr<autograd::Node> node);
  const std::shared_ptr<autograd::Leaf>& leaf() const;
  /// Replaces elements, dtype and device under the same handle (Module::to uses it). The gradient
  /// is dropped. Shape must agree.
  void set_data(const Tensor& data);
  /// True if both handles are the same tensor object.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  void check_in_place(const char* operation) const;

  std::shared_ptr<Impl> impl_;
};

// --- factories: new tensors outside the graph ---------------------------------------------------
Tensor empty(const Shape& shape, DType dtype = DType::Float32, Device device = kCPU);
Tensor zeros(const Shape& shape, DType dtype = DType::Float32, Device device = kCPU);
Tensor ones(const Shape& shape, DType dtype = DType::Float32, Device device = kCPU);
Tensor full(const Shape& shape, double value, DType dtype = DType::Float32, Device device = kCPU);
Tensor empty_like(const Tensor& tensor);
Tensor zeros_like(const Tensor& tensor);

}  // namespace lockstep
