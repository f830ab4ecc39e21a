// New tensors, and the element movers that know about devices.
#include "core/tensor_impl.h"
#include "kernels/cast.h"
#include "kernels/pointwise.h"

namespace lockstep {

void copy_elements(const Tensor& destination, const Tensor& source) {
  LOCKSTEP_CHECK(destination.device().is_cpu() && source.device().is_cpu(), "copy_: from ",
                 source.device(), " to ", destination.device(),
                 ": this build has no CUDA support; build with the CUDA toolkit");
  kernels::cpu::convert(destination.raw_data(), destination.dtype(), source.raw_data(),
                        source.dtype(), source.numel());
}

void accumulate_elements(const Tensor& destination, const Tensor& source) {
  LOCKSTEP_CHECK(destination.device().is_cpu(), "accumulate: on ", destination.device(),
                 ": this build has no CUDA support; build with the CUDA toolkit");
  dispatch_floating("accumulate", destination.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::add<T>(destination.data<T>(), destination.data<T>(), source.data<T>(),
                         destination.numel());
  });
}

void fill_elements(const Tensor& destination, double value) {
  LOCKSTEP_CHECK(destination.device().is_cpu(), "fill_: on ", destination.device(),
                 ": this build has no CUDA support; build with the CUDA toolkit");
  kernels::cpu::fill(destination.raw_data(), destination.dtype(), value, destination.numel());
}

Tensor empty(const Shape& shape, DType dtype, Device device) {
  Storage storage = Storage::allocate(shape.numel() * element_size(dtype), device);
  return Tensor::from_storage(std::move(storage), 0, shape, dtype);
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor result = empty(shape, dtype, device);
  fill_elements(result, value);
  return result;
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0.0, dtype, device);
}

Tensor ones(const Shape& shape, DType dtype, Device device) {
  return full(shape, 1.0, dtype, device);
}

Tensor empty_like(const Tensor& tensor) {
  return empty(tensor.shape(), tensor.dtype(), tensor.device());
}

Tensor zeros_like(const Tensor& tensor) {
  return zeros(tensor.shape(), tensor.dtype(), tensor.device());
}

}  // namespace lockstep
