// The functions of cuBLAS that we call, as one table. The library is opened on the first matrix
// product, so a program that runs on the CPU needs none of it and starts as fast as without.
#pragma once

#include <string>

#include "kernels/stream.h"

struct cublasContext;

namespace lockstep::kernels {

/// cuBLAS's handle, and its enumerations as the integers that they are.
using CublasHandle = cublasContext*;

struct CublasApi {
  int (*create)(CublasHandle* handle);
  int (*destroy)(CublasHandle handle);
  int (*get_version)(CublasHandle handle, int* version);
  int (*set_stream)(CublasHandle handle, Stream stream);
  int (*set_math_mode)(CublasHandle handle, int mode);
  int (*gemm_ex)(CublasHandle handle, int transpose_a, int transpose_b, int m, int n, int k,
                 const void* alpha, const void* a, int type_a, int leading_a, const void* b,
                 int type_b, int leading_b, const void* beta, void* c, int type_c, int leading_c,
                 int compute, int algorithm);
  const char* (*get_status_name)(int status);
  std::string path;  ///< of the library, for `lockstep info`
};

/// The table, opened by the first call of the process. Throws Error naming what was looked for and
/// how to install it when there is no cuBLAS.
const CublasApi& cublas_api();

}  // namespace lockstep::kernels
