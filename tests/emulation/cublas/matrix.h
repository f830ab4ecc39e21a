// Matrices of the emulated cuBLAS: where they are in device memory, and their way into Eigen and
// back. 16-bit elements become float and are rounded once when stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <type_traits>

#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/executor.h"

namespace lockstep::emulation {

inline size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_64F:
      return 8;
    default:
      return 0;
  }
}

/// A column-major matrix; only its own elements are touched, not what lies between its columns.
struct View {
  char* data;
  cudaDataType type;
  long rows, columns, leading;

  char* column(long c) const { return data + static_cast<size_t>(c * leading) * size_of(type); }
  size_t column_bytes() const { return static_cast<size_t>(rows) * size_of(type); }
  const char* end() const { return column(columns - 1) + column_bytes(); }
};

inline void check_view(const View& view, RangeAccess access) {
  std::lock_guard lock(kernel_mutex());
  for (long c = 0; c < view.columns; ++c) {
    check_range(view.column(c), view.column_bytes(), access);
  }
}

template <typename F>
void with_element_type(cudaDataType type, F visit) {
  switch (type) {
    case CUDA_R_16F:
      return visit(__half{});
    case CUDA_R_16BF:
      return visit(__nv_bfloat16{});
    case CUDA_R_32F:
      return visit(float{});
    default:
      return visit(double{});
  }
}

template <typename Matrix>
Matrix load(const View& view) {
  using Scalar = typename Matrix::Scalar;
  Matrix matrix(view.rows, view.columns);
  with_element_type(view.type, [&](auto zero) {
    using T = decltype(zero);
    for (long c = 0; c < view.columns; ++c) {
      const auto* column = reinterpret_cast<const T*>(view.column(c));
      for (long r = 0; r < view.rows; ++r) {
        if constexpr (std::is_floating_point_v<T>) {
          matrix(r, c) = static_cast<Scalar>(column[r]);
        } else {
          matrix(r, c) = static_cast<float>(column[r]);
        }
      }
    }
  });
  return matrix;
}

template <typename Matrix>
void store(const View& view, const Matrix& matrix) {
  with_element_type(view.type, [&](auto zero) {
    using T = decltype(zero);
    for (long c = 0; c < view.columns; ++c) {
      auto* column = reinterpret_cast<T*>(view.column(c));
      for (long r = 0; r < view.rows; ++r) {
        if constexpr (std::is_floating_point_v<T>) {
          column[r] = static_cast<T>(matrix(r, c));
        } else {
          column[r] = T(static_cast<float>(matrix(r, c)));
        }
      }
    }
  });
}

// TF32 keeps 10 bits of the significand.
inline void round_to_tf32(Eigen::MatrixXf& matrix) {
  for (long i = 0; i < matrix.size(); ++i) {
    float& value = matrix.data()[i];
    if (!std::isfinite(value)) continue;
    value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) & ~0x1fffu);
  }
}

}  // namespace lockstep::emulation
