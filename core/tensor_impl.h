// What a Tensor handle points to, and the two element movers behind copy_ and fill_. Internal to
// core.
#pragma once

#include <memory>

#include "core/tensor.h"

namespace lockstep {

struct Tensor::Impl {
  Storage storage;
  int64_t offset = 0;  ///< in elements
  Shape shape;
  int64_t numel = 1;
  DType dtype = DType::Float32;
  std::shared_ptr<autograd::Node> grad_fn;  ///< set on results of recorded operations
  std::shared_ptr<autograd::Leaf> leaf;     ///< set on leaves that require grad
};

/// destination[i] = source[i], converting dtype and device. Equal shapes, checked by the caller.
void copy_elements(const Tensor& destination, const Tensor& source);

/// destination[i] += source[i]. Equal numel, dtype and device, checked by the caller.
void accumulate_elements(const Tensor& destination, const Tensor& source);

/// destination[i] = value.
void fill_elements(const Tensor& destination, double value);

}  // namespace lockstep
