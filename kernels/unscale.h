// What a gradient scaler does before a step: divides all gradients by the loss scale and finds out
// whether one of them is not finite, in the same pass.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/stream.h"

namespace lockstep::kernels::cuda {

template <typename T>
struct UnscaleGrad {
  T* grad;
  int64_t n;
};

/// grad[i] *= factor; found_inf[0] becomes 1 when a result is infinite or NaN and stays as it is
/// otherwise. One launch for up to 128 gradients.
template <typename T>
void unscale(float* found_inf, std::span<const UnscaleGrad<T>> grads, double factor, Stream stream);

}  // namespace lockstep::kernels::cuda
