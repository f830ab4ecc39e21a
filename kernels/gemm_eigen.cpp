// Matrix products by Eigen, where there is no BLAS: one thread, the instructions of the compiler's
// target.
#include <Eigen/Core>

#include "core/base/error.h"
#include "kernels/gemm.h"

namespace lockstep::kernels::cpu {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Destination = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <typename T>
using Source = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// The operand as stored: [rows, columns] before its transposition.
template <typename T>
Source<T> stored(const GemmOperand<T>& operand, int64_t rows, int64_t columns) {
  return operand.transposed
             ? Source<T>(operand.data, columns, rows, Eigen::OuterStride<>(operand.stride))
             : Source<T>(operand.data, rows, columns, Eigen::OuterStride<>(operand.stride));
}

template <typename T, typename A, typename B>
void multiply(Destination<T>& c, const A& a, const B& b, T alpha, T beta) {
  if (beta == T{0}) {
    c.noalias() = alpha * a * b;
    return;
  }
  if (beta != T{1}) c *= beta;
  c.noalias() += alpha * a * b;
}

}  // namespace

template <typename T>
void gemm(T* c, int64_t c_stride, const GemmOperand<T>& a, const GemmOperand<T>& b, int64_t m,
          int64_t n, int64_t k, T alpha, T beta) {
  if (m == 0 || n == 0) return;
  Destination<T> result(c, m, n, Eigen::OuterStride<>(c_stride));
  const Source<T> left = stored(a, m, k);
  const Source<T> right = stored(b, k, n);
  if (!a.transposed && !b.transposed) multiply(result, left, right, alpha, beta);
  if (a.transposed && !b.transposed) multiply(result, left.transpose(), right, alpha, beta);
  if (!a.transposed && b.transposed) multiply(result, left, right.transpose(), alpha, beta);
  if (a.transposed && b.transposed) {
    multiply(result, left.transpose(), right.transpose(), alpha, beta);
  }
}

template void gemm<float>(float*, int64_t, const GemmOperand<float>&, const GemmOperand<float>&,
                          int64_t, int64_t, int64_t, float, float);
template void gemm<double>(double*, int64_t, const GemmOperand<double>&, const GemmOperand<double>&,
                           int64_t, int64_t, int64_t, double, double);

std::string blas_name() {
  return concat("Eigen ", EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION);
}

void blas_set_num_threads(int) {}  // always one

int blas_num_threads() { return 1; }

}  // namespace lockstep::kernels::cpu
