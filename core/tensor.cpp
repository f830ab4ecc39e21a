// Tensor handles: views, checked access, copies.
#include "core/tensor.h"

#include <cstring>
#include <utility>

#include "core/autograd_node.h"
#include "core/base/pool.h"
#include "core/ops.h"
#include "core/tensor_impl.h"
#include "kernels/cast.h"
#include "kernels/pointwise.h"

namespace lockstep {
namespace {

void require_defined(const void* impl, const char* operation) {
  LOCKSTEP_CHECK(impl != nullptr, operation, ": the tensor is undefined; give it a value first");
}

}  // namespace

Tensor Tensor::from_storage(Storage storage, int64_t offset, const Shape& shape, DType dtype) {
  LOCKSTEP_CHECK(storage.defined(), "from_storage: the storage is undefined");
  const int64_t size = element_size(dtype);
  const int64_t capacity = storage.nbytes() / size;
  LOCKSTEP_CHECK(offset >= 0 && offset <= capacity && shape.numel() <= capacity - offset,
                 "from_storage: shape ", shape, " of ", dtype, " at element ", offset,
                 " needs more than the storage's ", storage.nbytes(), " bytes (", capacity,
                 " elements)");
  const auto address = reinterpret_cast<uintptr_t>(storage.data());
  LOCKSTEP_CHECK(address % static_cast<uintptr_t>(size) == 0,
                 "from_storage: the memory is not aligned to ", dtype);
  auto impl = pool::make_shared<Impl>();
  impl->storage = std::move(storage);
  impl->offset = offset;
  impl->shape = shape;
  impl->numel = shape.numel();
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

template <typename T>
Tensor Tensor::from_values(std::span<const T> values, const Shape& shape) {
  LOCKSTEP_CHECK(static_cast<int64_t>(values.size()) == shape.numel(),
                 "from_values: ", values.size(), " values given for shape ", shape);
  Tensor result = empty(shape, dtype_of<T>);
  if (!values.empty()) std::memcpy(result.raw_data(), values.data(), values.size_bytes());
  return result;
}

const Shape& Tensor::shape() const {
  require_defined(impl_.get(), "shape");
  return impl_->shape;
}

int64_t Tensor::numel() const {
  require_defined(impl_.get(), "numel");
  return impl_->numel;
}

int64_t Tensor::nbytes() const { return numel() * element_size(dtype()); }

DType Tensor::dtype() const {
  require_defined(impl_.get(), "dtype");
  return impl_->dtype;
}

Device Tensor::device() const { return storage().device(); }

const Storage& Tensor::storage() const {
  require_defined(impl_.get(), "storage");
  return impl_->storage;
}

int64_t Tensor::storage_offset() const {
  require_defined(impl_.get(), "storage_offset");
  return impl_->offset;
}

void* Tensor::raw_data() const {
  require_defined(impl_.get(), "raw_data");
  return static_cast<char*>(impl_->storage.data()) + impl_->offset * element_size(impl_->dtype);
}

template <typename T>
T* Tensor::data() const {
  LOCKSTEP_CHECK(dtype() == dtype_of<T>, "data: the tensor is ", dtype(), ", asked for ",
                 dtype_of<T>);
  return static_cast<T*>(raw_data());
}

double Tensor::item() const {
  LOCKSTEP_CHECK(numel() == 1, "item: the tensor has shape ", shape(), ", expected one element");
  const Tensor host = to(kCPU);
  double value = 0.0;
  kernels::cpu::convert(&value, DType::Float64, host.raw_data(), dtype(), 1);
  return value;
}

template <typename T>
std::vector<T> Tensor::to_vector() const {
  const Tensor host = to(kCPU);
  const T* first = host.data<T>();
  return std::vector<T>(first, first + host.numel());
}

Tensor Tensor::to(Device target) const {
  if (device() == target) return *this;
  Tensor result = empty(shape(), dtype(), target);
  result.copy_(*this);
  return result;
}

Tensor Tensor::to(DType target) const {
  if (dtype() == target) return *this;
  Tensor result = empty(shape(), target, device());
  result.copy_(*this);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty_like(*this);
  result.copy_(*this);
  return result;
}

Tensor Tensor::detach() const {
  return from_storage(storage(), impl_->offset, impl_->shape, impl_->dtype);
}

Tensor Tensor::view(std::span<const int64_t> sizes) const {
  std::array<int64_t, Shape::kMaxDims> extents{};
  LOCKSTEP_CHECK(sizes.size() <= extents.size(), "view: ", sizes.size(),
                 " dimensions given, at most ", Shape::kMaxDims, " are supported");
  int64_t known = 1;
  int inferred = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    extents[i] = sizes[i];
    if (sizes[i] == -1) {
      LOCKSTEP_CHECK(inferred < 0, "view: only one extent may be -1");
      inferred = static_cast<int>(i);
    } else {
      known *= sizes[i];
    }
  }
  if (inferred >= 0) {
    LOCKSTEP_CHECK(known > 0 && numel() % known == 0, "view: shape ", shape(),
                   " cannot be divided into rows of ", known, " elements for the extent -1");
    extents[static_cast<size_t>(inferred)] = numel() / known;
  }
  return ops::view(*this, Shape(std::span<const int64_t>(extents.data(), sizes.size())));
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  LOCKSTEP_CHECK(dim() >= 1, "slice: a tensor of shape ", shape(), " has no rows");
  LOCKSTEP_CHECK(0 <= begin && begin <= end && end <= size(0), "slice: rows [", begin, ", ", end,
                 ") asked of a tensor of shape ", shape());
  std::array<int64_t, Shape::kMaxDims> extents{};
  std::copy(shape().begin(), shape().end(), extents.begin());
  extents[0] = end - begin;
  const Shape rows(std::span<const int64_t>(extents.data(), static_cast<size_t>(dim())));
  const int64_t stride = size(0) > 0 ? numel() / size(0) : 0;
  return from_storage(storage(), impl_->offset + begin * stride, rows, dtype());
}

void Tensor::check_in_place(const char* operation) const {
  require_defined(impl_.get(), operation);
  LOCKSTEP_CHECK(!is_grad_enabled() || !requires_grad(), operation,
                 ": in place on a tensor that autograd tracks (shape ", shape(),
                 "); use a NoGradGuard");
}

Tensor& Tensor::copy_(const Tensor& source) {
  check_in_place("copy_");
  LOCKSTEP_CHECK(shape() == source.shape(), "copy_: source has shape ", source.shape(),
                 ", destination ", shape());
  copy_elements(*this, source);
  bump_version();
  return *this;
}

Tensor& Tensor::fill_(double value) {
  check_in_place("fill_");
  fill_elements(*this, value);
  bump_version();
  return *this;
}

Tensor& Tensor::zero_() { return fill_(0.0); }

bool Tensor::requires_grad() const {
  require_defined(impl_.get(), "requires_grad");
  return impl_->leaf != nullptr || impl_->grad_fn != nullptr;
}

Tensor& Tensor::requires_grad_(bool requires_grad) {
  require_defined(impl_.get(), "requires_grad_");
  LOCKSTEP_CHECK(impl_->grad_fn == nullptr,
                 "requires_grad_: the tensor is the result of an operation; detach() it first");
  LOCKSTEP_CHECK(!requires_grad || is_floating(dtype()),
                 "requires_grad_: expected a floating dtype, got ", dtype());
  if (requires_grad && impl_->leaf == nullptr) impl_->leaf = std::make_shared<autograd::Leaf>();
  if (!requires_grad) impl_->leaf = nullptr;
  return *this;
}

bool Tensor::is_leaf() const {
  require_defined(impl_.get(), "is_leaf");
  return impl_->grad_fn == nullptr;
}

Tensor Tensor::grad() const {
  require_defined(impl_.get(), "grad");
  const auto& leaf = impl_->leaf;
  if (leaf == nullptr || leaf->state == autograd::GradState::Undefined) return Tensor();
  return leaf->memory;
}

void Tensor::backward(const Tensor& gradient) const { autograd::backward(*this, gradient); }

const std::shared_ptr<autograd::Node>& Tensor::grad_fn() const {
  require_defined(impl_.get(), "grad_fn");
  return impl_->grad_fn;
}

void Tensor::set_grad_fn(std::shared_ptr<autograd::Node> node) {
  require_defined(impl_.get(), "set_grad_fn");
  impl_->grad_fn = std::move(node);
}

const std::shared_ptr<autograd::Leaf>& Tensor::leaf() const {
  require_defined(impl_.get(), "leaf");
  return impl_->leaf;
}

void Tensor::set_data(const Tensor& data) {
  LOCKSTEP_CHECK(shape() == data.shape(), "set_data: the new elements have shape ", data.shape(),
                 ", expected ", shape());
  LOCKSTEP_CHECK(is_leaf(), "set_data: the tensor is the result of an operation");
  impl_->storage = data.storage();
  impl_->offset = data.storage_offset();
  impl_->dtype = data.dtype();
  if (impl_->leaf != nullptr) {
    impl_->leaf->memory = Tensor();
    impl_->leaf->state = autograd::GradState::Undefined;
  }
}

#define LOCKSTEP_INSTANTIATE(T)                         \
  template T* Tensor::data<T>() const;                  \
  template std::vector<T> Tensor::to_vector<T>() const; \
  template Tensor Tensor::from_values<T>(std::span<const T> values, const Shape& shape);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
LOCKSTEP_INSTANTIATE(int64_t)
LOCKSTEP_INSTANTIATE(uint8_t)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
