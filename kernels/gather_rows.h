// One batch out of a data set: rows picked by index, bytes scaled to floats on the way.
#pragma once

#include <cstdint>

namespace lockstep::kernels::cpu {

/// output[i][j] = float(rows[indices[i]][j]) * scale + shift, two roundings (the same bits on every
/// CPU). output [n, row_size]; rows [.., row_size]; indices [n], valid.
void gather_rows(float* output, const uint8_t* rows, const int64_t* indices, int64_t n,
                 int64_t row_size, float scale, float shift);

/// output[i] = rows[indices[i]], copied.
void gather_rows(float* output, const float* rows, const int64_t* indices, int64_t n,
                 int64_t row_size);

namespace avx2 {
void scale_bytes(float* output, const uint8_t* bytes, int64_t n, float scale, float shift);
}  // namespace avx2

}  // namespace lockstep::kernels::cpu
