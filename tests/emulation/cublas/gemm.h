// One matrix product as its caller described it: C = alpha op(A) op(B) + beta C, column-major.
#pragma once

#include <cublas_v2.h>

#include "tests/emulation/cublas/matrix.h"

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};

namespace lockstep::emulation {

struct Operand {
  const void* data;
  cudaDataType type;
  int leading;
  long long stride;

  View view(long rows, long columns, int batch_index) const {
    auto* begin = static_cast<char*>(const_cast<void*>(data));
    begin += static_cast<long long>(size_of(type)) * stride * batch_index;
    return {begin, type, rows, columns, leading};
  }
};

struct Gemm {
  const char* function;
  cublasHandle_t handle;
  cublasOperation_t transpose_a, transpose_b;
  int m, n, k;
  const void *alpha, *beta;
  Operand a, b, c;
  int batch_count;
  cublasComputeType_t compute;
};

/// Checks the arguments as cuBLAS does and the extent of the matrices as a GPU would, then enqueues
/// the product in the handle's stream.
cublasStatus_t enqueue_gemm(const Gemm& gemm);

}  // namespace lockstep::emulation
