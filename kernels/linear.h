// The linear layer: three matrix products, a fused bias and activation, and a column sum. n rows;
// float and double go to the BLAS as they are, 16-bit operands are converted to fp32 first and the
// result is rounded once.
#pragma once

#include <cstdint>

#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

enum class Epilogue : uint8_t { None, Relu };

/// output [n, out] = epilogue(input [n, in] * weight [out, in]^T + bias [out]); bias may be null.
template <typename T>
void linear_forward(T* output, const T* input, const T* weight, const T* bias, int64_t n,
                    int64_t in, int64_t out, Epilogue epilogue);

/// grad_bias [out] (+)= sum_n grad_output [n, out]
template <typename T>
void linear_backward_bias(T* grad_bias, const T* grad_output, int64_t n, int64_t out,
                          bool accumulate);

/// grad_weight [out, in] (+)= grad_output [n, out]^T * input [n, in]
template <typename T>
void linear_backward_weight(T* grad_weight, const T* grad_output, const T* input, int64_t n,
                            int64_t in, int64_t out, bool accumulate);

/// grad_input [n, in] (+)= grad_output [n, out] * weight [out, in]
template <typename T>
void linear_backward_input(T* grad_input, const T* grad_output, const T* weight, int64_t n,
                           int64_t in, int64_t out, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

// See kernels/cublas_api.h for where the products come from. fp32 is computed in fp32, without
// TF32; the 16-bit types with fp32 accumulation. The product is rounded to T before the bias.

template <typename T>
void linear_forward(T* output, const T* input, const T* weight, const T* bias, int64_t n,
                    int64_t in, int64_t out, cpu::Epilogue epilogue, Stream stream);
template <typename T>
void linear_backward_bias(T* grad_bias, const T* grad_output, int64_t n, int64_t out,
                          bool accumulate, Stream stream);
template <typename T>
void linear_backward_weight(T* grad_weight, const T* grad_output, const T* input, int64_t n,
                            int64_t in, int64_t out, bool accumulate, Stream stream);
template <typename T>
void linear_backward_input(T* grad_input, const T* grad_output, const T* weight, int64_t n,
                           int64_t in, int64_t out, bool accumulate, Stream stream);

/// output [n, out] = epilogue(output + bias [out]) in one pass; bias may be null.
template <typename T>
void bias_activation(T* output, const T* bias, int64_t n, int64_t out, cpu::Epilogue epilogue,
                     Stream stream);

}  // namespace lockstep::kernels::cuda
