// Sums over all elements and over rows. Their order is fixed by the sizes alone, so they repeat bit
// for bit; pairwise, so that their error grows with the logarithm of the length.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// sum_i input[i], taken in double; 0 for n = 0.
template <typename T>
double sum(const T* input, int64_t n);

/// sum_i input[i]^2, taken in double: the square of the 2-norm.
template <typename T>
double sum_of_squares(const T* input, int64_t n);

/// sums[c] (+)= sum_r input[r, c] of input [rows, columns], taken in accumulate_t<T> and rounded
/// once.
template <typename T>
void column_sum(T* sums, const T* input, int64_t rows, int64_t columns, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

/// output[0] = factor * sum_i input[i], rounded once: the mean for a factor of 1 / n. The sum stays
/// on the device, so that nobody waits for it.
template <typename T>
void sum(T* output, const T* input, int64_t n, double factor, Stream stream);

/// result[0] = sum_i input[i]^2
template <typename T>
void sum_of_squares(double* result, const T* input, int64_t n, Stream stream);

template <typename T>
void column_sum(T* sums, const T* input, int64_t rows, int64_t columns, bool accumulate,
                Stream stream);

}  // namespace lockstep::kernels::cuda
