// What gradient clipping needs: the sum of squares of a gradient, and scaling it in place.
#pragma once

#include <cstdint>

namespace lockstep::kernels::cpu {

/// sum values[i]^2, added in double: neither long nor large gradients overflow or lose digits.
template <typename T>
double sum_of_squares(const T* values, int64_t n);

/// values[i] *= factor, computed in fp32 for 16-bit types. Not skipped for a factor of 1.
template <typename T>
void scale_in_place(T* values, int64_t n, double factor);

}  // namespace lockstep::kernels::cpu
