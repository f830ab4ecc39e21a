// Rows of a data set are far apart and each is used once an epoch: the next one is fetched while
// this one is scaled.
#include "kernels/gather_rows.h"

#include <cstring>

#include "core/base/cpu.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kCacheLine = 64;

void scale_bytes(float* __restrict output, const uint8_t* __restrict bytes, int64_t n, float scale,
                 float shift) {
  for (int64_t j = 0; j < n; ++j) output[j] = static_cast<float>(bytes[j]) * scale + shift;
}

void prefetch(const void* row, int64_t nbytes) {
  const char* bytes = static_cast<const char*>(row);
  for (int64_t offset = 0; offset < nbytes; offset += kCacheLine) {
    __builtin_prefetch(bytes + offset);
  }
}

}  // namespace

void gather_rows(float* output, const uint8_t* rows, const int64_t* indices, int64_t n,
                 int64_t row_size, float scale, float shift) {
  const bool wide = cpu_capability() == CpuCapability::Avx2;
  for (int64_t i = 0; i < n; ++i) {
    if (i + 1 < n) prefetch(rows + indices[i + 1] * row_size, row_size);
    const uint8_t* row = rows + indices[i] * row_size;
    if (wide) {
      avx2::scale_bytes(output + i * row_size, row, row_size, scale, shift);
    } else {
      scale_bytes(output + i * row_size, row, row_size, scale, shift);
    }
  }
}

void gather_rows(float* output, const float* rows, const int64_t* indices, int64_t n,
                 int64_t row_size) {
  const size_t nbytes = static_cast<size_t>(row_size) * sizeof(float);
  for (int64_t i = 0; i < n; ++i) {
    if (i + 1 < n) prefetch(rows + indices[i + 1] * row_size, static_cast<int64_t>(nbytes));
    std::memcpy(output + i * row_size, rows + indices[i] * row_size, nbytes);
  }
}

}  // namespace lockstep::kernels::cpu
