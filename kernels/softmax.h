// softmax and log_softmax along rows: forward from the row maximum and one sum of exponentials,
// backward from the saved output alone.
#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// output[r, c] = exp(input[r, c] - max) / sum exp(input[r, :] - max); [rows, n]
template <typename T>
void softmax_forward(T* output, const T* input, int64_t rows, int64_t n);

/// grad_input (+)= output * (grad_output - sum_c grad_output[r, c] output[r, c])
template <typename T>
void softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows, int64_t n,
                      bool accumulate);

/// output[r, c] = input[r, c] - max - log sum exp(input[r, :] - max); [rows, n]
template <typename T>
void log_softmax_forward(T* output, const T* input, int64_t rows, int64_t n);

/// grad_input (+)= grad_output - exp(output) * sum_c grad_output[r, c]
template <typename T>
void log_softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows,
                          int64_t n, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

template <typename T>
void softmax_forward(T* output, const T* input, int64_t rows, int64_t n, Stream stream);
template <typename T>
void softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows, int64_t n,
                      bool accumulate, Stream stream);
template <typename T>
void log_softmax_forward(T* output, const T* input, int64_t rows, int64_t n, Stream stream);
template <typename T>
void log_softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows,
                          int64_t n, bool accumulate, Stream stream);

}  // namespace lockstep::kernels::cuda
