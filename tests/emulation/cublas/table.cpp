// The product's table of cuBLAS functions, filled with the emulated ones at link time.
#include <cublas_v2.h>

#include "kernels/cublas_api.h"

namespace lockstep::kernels {
namespace {

int gemm_ex(CublasHandle handle, int transpose_a, int transpose_b, int m, int n, int k,
            const void* alpha, const void* a, int type_a, int leading_a, const void* b, int type_b,
            int leading_b, const void* beta, void* c, int type_c, int leading_c, int compute,
            int algorithm) {
  return cublasGemmEx(
      handle, static_cast<cublasOperation_t>(transpose_a),
      static_cast<cublasOperation_t>(transpose_b), m, n, k, alpha, a,
      static_cast<cudaDataType>(type_a), leading_a, b, static_cast<cudaDataType>(type_b), leading_b,
      beta, c, static_cast<cudaDataType>(type_c), leading_c,
      static_cast<cublasComputeType_t>(compute), static_cast<cublasGemmAlgo_t>(algorithm));
}

}  // namespace

const CublasApi& cublas_api() {
  static const CublasApi api{
      [](CublasHandle* handle) -> int { return cublasCreate_v2(handle); },
      [](CublasHandle handle) -> int { return cublasDestroy_v2(handle); },
      [](CublasHandle handle, int* version) -> int { return cublasGetVersion_v2(handle, version); },
      [](CublasHandle handle, Stream stream) -> int { return cublasSetStream_v2(handle, stream); },
      [](CublasHandle handle, int mode) -> int {
        return cublasSetMathMode(handle, static_cast<cublasMath_t>(mode));
      },
      gemm_ex,
      [](int status) { return cublasGetStatusName(static_cast<cublasStatus_t>(status)); },
      "emulated"};
  return api;
}

}  // namespace lockstep::kernels
