// Checks that every operation makes. Their messages have one form: the operation, what was given,
// what was expected, how to fix it.
#pragma once

#include "core/base/error.h"
#include "core/tensor.h"

namespace lockstep::ops {

/// Throws Error unless the tensor is defined and on the CPU.
inline void require_cpu(const char* operation, const Tensor& tensor) {
  LOCKSTEP_CHECK(tensor.defined(), operation, ": an input is undefined; give it a value first");
  LOCKSTEP_CHECK(tensor.device().is_cpu(), operation, ": an input is on ", tensor.device(),
                 ", this build runs on the CPU only; build with the CUDA toolkit, or move it with "
                 "to(kCPU)");
}

/// Throws Error unless the dtype is a floating one.
inline void require_floating(const char* operation, const Tensor& tensor) {
  LOCKSTEP_CHECK(is_floating(tensor.dtype()), operation, ": an input of shape ", tensor.shape(),
                 " is ", tensor.dtype(), ", expected a floating dtype; convert it with to()");
}

/// Throws Error unless `tensor` (called `name` in the message) is defined and has the dtype and the
/// device of `reference`.
inline void require_like(const char* operation, const char* name, const Tensor& tensor,
                         const char* reference_name, const Tensor& reference) {
  LOCKSTEP_CHECK(tensor.defined(), operation, ": ", name, " is undefined; give it a value first");
  LOCKSTEP_CHECK(tensor.dtype() == reference.dtype(), operation, ": ", name, " is ", tensor.dtype(),
                 ", ", reference_name, " is ", reference.dtype(),
                 "; convert one of them with to()");
  LOCKSTEP_CHECK(tensor.device() == reference.device(), operation, ": ", name, " is on ",
                 tensor.device(), ", ", reference_name, " is on ", reference.device(),
                 "; move one of them with to()");
}

}  // namespace lockstep::ops
