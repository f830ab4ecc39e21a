// Conversions between element types, many elements at a time: the same bits as the scalar
// conversions of core/base/half.h, with the CPU's F16C instructions where it has them.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

/// destination[i] = source[i] as the other type; a plain copy between equal types. To a 16-bit
/// type: by way of Float32, each step to nearest even. Floating to integer: truncated, clamped to
/// the type's range, NaN to 0. Integer to integer: the low bits. The ranges must not overlap.
void convert(void* destination, DType destination_dtype, const void* source, DType source_dtype,
             int64_t n);

/// destination[i] = float(source[i]), exact.
void to_float(float* destination, const Half* source, int64_t n);
void to_float(float* destination, const BFloat16* source, int64_t n);

/// destination[i] = source[i] rounded to nearest even.
void from_float(Half* destination, const float* source, int64_t n);
void from_float(BFloat16* destination, const float* source, int64_t n);

/// The same with AVX2 and F16C, for the first n / 8 * 8 elements; returns that number.
int64_t to_float_avx2(float* destination, const Half* source, int64_t n);
int64_t from_float_avx2(Half* destination, const float* source, int64_t n);
int64_t from_float_avx2(BFloat16* destination, const float* source, int64_t n);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

/// As above, bit for bit except for the payload of NaN.
void convert(void* destination, DType destination_dtype, const void* source, DType source_dtype,
             int64_t n, Stream stream);

}  // namespace lockstep::kernels::cuda
