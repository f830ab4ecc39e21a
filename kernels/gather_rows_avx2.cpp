// Bytes to scaled floats, 32 at a time with AVX2.
#include "kernels/gather_rows.h"

namespace lockstep::kernels::cpu::avx2 {

void scale_bytes(float* __restrict output, const uint8_t* __restrict bytes, int64_t n, float scale,
                 float shift) {
  for (int64_t j = 0; j < n; ++j) output[j] = static_cast<float>(bytes[j]) * scale + shift;
}

}  // namespace lockstep::kernels::cpu::avx2
