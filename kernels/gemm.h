// The matrix product: the one door to the BLAS. CMake compiles gemm_cblas.cpp (OpenBLAS) or
// gemm_eigen.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::kernels::cpu {

/// A row-major matrix of a product: element (i, j) is data[i * stride + j]; `transposed` gives the
/// product its transpose.
template <typename T>
struct GemmOperand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

/// c [m, n] = alpha * a [m, k] * b [k, n] + beta * c, with m, n, k after the transpositions and
/// rows of c c_stride apart. With beta = 0, c is written and never read; with k = 0 the product is
/// zero. Instantiated for float and double. Throws Error for an extent beyond the BLAS's integers.
template <typename T>
void gemm(T* c, int64_t c_stride, const GemmOperand<T>& a, const GemmOperand<T>& b, int64_t m,
          int64_t n, int64_t k, T alpha, T beta);

/// "OpenBLAS 0.3.21 SkylakeX" or "Eigen 3.4.0".
std::string blas_name();

/// How many threads a product may use, in the whole process. The library never sets it; programs
/// do.
void blas_set_num_threads(int num_threads);
int blas_num_threads();

}  // namespace lockstep::kernels::cpu
