// Layer normalisation over rows. The forward keeps mean and 1/sqrt(var + eps) of each row; the
// backward rebuilds the normalised input from them.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// output[r, c] = (input[r, c] - mean[r]) * rstd[r] * weight[c] + bias[c]
///   mean = sum input / n; rstd = 1 / sqrt(sum (input - mean)^2 / n + eps)
/// input, output [rows, n]; weight, bias [n]; mean, rstd [rows] are outputs too.
template <typename T>
void layer_norm_forward(T* output, accumulate_t<T>* mean, accumulate_t<T>* rstd, const T* input,
                        const T* weight, const T* bias, int64_t rows, int64_t n, double eps);

/// grad_bias[c] (+)= sum_r grad_output[r, c]
template <typename T>
void layer_norm_backward_bias(T* grad_bias, const T* grad_output, int64_t rows, int64_t n,
                              bool accumulate);

/// grad_weight[c] (+)= sum_r grad_output[r, c] * x[r, c], x = (input - mean) * rstd
template <typename T>
void layer_norm_backward_weight(T* grad_weight, const T* grad_output, const T* input,
                                const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                                int64_t rows, int64_t n, bool accumulate);

/// grad_input (+)= rstd * (g - mean_c(g) - x * mean_c(g * x)), g = grad_output * weight
template <typename T>
void layer_norm_backward_input(T* grad_input, const T* grad_output, const T* input, const T* weight,
                               const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                               int64_t rows, int64_t n, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

template <typename T>
void layer_norm_forward(T* output, accumulate_t<T>* mean, accumulate_t<T>* rstd, const T* input,
                        const T* weight, const T* bias, int64_t rows, int64_t n, double eps,
                        Stream stream);
template <typename T>
void layer_norm_backward_bias(T* grad_bias, const T* grad_output, int64_t rows, int64_t n,
                              bool accumulate, Stream stream);
template <typename T>
void layer_norm_backward_weight(T* grad_weight, const T* grad_output, const T* input,
                                const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                                int64_t rows, int64_t n, bool accumulate, Stream stream);
template <typename T>
void layer_norm_backward_input(T* grad_input, const T* grad_output, const T* input, const T* weight,
                               const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                               int64_t rows, int64_t n, bool accumulate, Stream stream);

}  // namespace lockstep::kernels::cuda
