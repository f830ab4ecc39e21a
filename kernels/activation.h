// The activations, forward and backward. Elementwise over n elements.
#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// output = max(input, 0); NaN stays NaN. output may be input.
template <typename T>
void relu_forward(T* output, const T* input, int64_t n);

/// grad_input (+)= output <= 0 ? 0 : grad_output. grad_input may be grad_output.
template <typename T>
void relu_backward(T* grad_input, const T* grad_output, const T* output, int64_t n,
                   bool accumulate);

/// output = input * Phi(input), Phi(x) = (1 + erf(x / sqrt 2)) / 2. output may be input.
template <typename T>
void gelu_forward(T* output, const T* input, int64_t n);

/// grad_input (+)= grad_output * (Phi(input) + input * exp(-input^2 / 2) / sqrt(2 pi)).
/// grad_input may be grad_output.
template <typename T>
void gelu_backward(T* grad_input, const T* grad_output, const T* input, int64_t n, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

template <typename T>
void relu_forward(T* output, const T* input, int64_t n, Stream stream);
template <typename T>
void relu_backward(T* grad_input, const T* grad_output, const T* output, int64_t n, bool accumulate,
                   Stream stream);
template <typename T>
void gelu_forward(T* output, const T* input, int64_t n, Stream stream);
template <typename T>
void gelu_backward(T* grad_input, const T* grad_output, const T* input, int64_t n, bool accumulate,
                   Stream stream);

}  // namespace lockstep::kernels::cuda
