// Matrix products by OpenBLAS, which chooses its kernels for the CPU at run time.
#include <cblas.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "core/base/error.h"
#include "kernels/gemm.h"

namespace lockstep::kernels::cpu {
namespace {

CBLAS_TRANSPOSE transposition(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

blasint checked(int64_t extent) {
  LOCKSTEP_CHECK(extent <= std::numeric_limits<blasint>::max(), "matrix product: an extent of ",
                 extent, " is beyond the BLAS's ", std::numeric_limits<blasint>::max(),
                 "; split the tensor");
  return static_cast<blasint>(extent);
}

/// BLAS wants a leading dimension of at least 1, also of an empty matrix.
blasint leading(int64_t stride) { return checked(std::max<int64_t>(stride, 1)); }

void call(float* c, blasint ldc, const GemmOperand<float>& a, const GemmOperand<float>& b,
          blasint m, blasint n, blasint k, float alpha, float beta) {
  cblas_sgemm(CblasRowMajor, transposition(a.transposed), transposition(b.transposed), m, n, k,
              alpha, a.data, leading(a.stride), b.data, leading(b.stride), beta, c, ldc);
}

void call(double* c, blasint ldc, const GemmOperand<double>& a, const GemmOperand<double>& b,
          blasint m, blasint n, blasint k, double alpha, double beta) {
  cblas_dgemm(CblasRowMajor, transposition(a.transposed), transposition(b.transposed), m, n, k,
              alpha, a.data, leading(a.stride), b.data, leading(b.stride), beta, c, ldc);
}

}  // namespace

template <typename T>
void gemm(T* c, int64_t c_stride, const GemmOperand<T>& a, const GemmOperand<T>& b, int64_t m,
          int64_t n, int64_t k, T alpha, T beta) {
  if (m == 0 || n == 0) return;
  call(c, leading(c_stride), a, b, checked(m), checked(n), checked(k), alpha, beta);
}

template void gemm<float>(float*, int64_t, const GemmOperand<float>&, const GemmOperand<float>&,
                          int64_t, int64_t, int64_t, float, float);
template void gemm<double>(double*, int64_t, const GemmOperand<double>&, const GemmOperand<double>&,
                           int64_t, int64_t, int64_t, double, double);

std::string blas_name() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words say enough.
  std::istringstream config(openblas_get_config());
  std::string library;
  std::string version;
  config >> library >> version;
  return library + " " + version + " " + openblas_get_corename();
}

void blas_set_num_threads(int num_threads) { openblas_set_num_threads(num_threads); }

int blas_num_threads() { return openblas_get_num_threads(); }

}  // namespace lockstep::kernels::cpu
