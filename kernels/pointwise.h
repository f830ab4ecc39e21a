// The elementwise kernels that are no activation: fill, add, multiply by a number.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// destination[i] = value, converted as convert() (kernels/cast.h) does.
void fill(void* destination, DType dtype, double value, int64_t n);

/// destination[i] (+)= value; value is rounded to accumulate_t<T> first.
template <typename T>
void fill_or_add(T* destination, int64_t n, double value, bool accumulate);

/// output[i] = a[i] + b[i]; output may be a or b (so add(x, x, y, n) is x += y).
template <typename T>
void add(T* output, const T* a, const T* b, int64_t n);

/// output[i] (+)= input[i] * factor; factor is rounded to accumulate_t<T> first; output may be
/// input.
template <typename T>
void mul(T* output, const T* input, int64_t n, double factor, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

void fill(void* destination, DType dtype, double value, int64_t n, Stream stream);
template <typename T>
void fill_or_add(T* destination, int64_t n, double value, bool accumulate, Stream stream);
template <typename T>
void add(T* output, const T* a, const T* b, int64_t n, Stream stream);
template <typename T>
void mul(T* output, const T* input, int64_t n, double factor, bool accumulate, Stream stream);

}  // namespace lockstep::kernels::cuda
