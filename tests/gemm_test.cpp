// The matrix product against Eigen in double: transpositions, strides, alpha, beta, empty extents.
#include "kernels/gemm.h"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace lockstep;
using kernels::cpu::gemm;
using kernels::cpu::GemmOperand;

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Case {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  double alpha, beta;
};

/// A row-major [rows, columns] inside rows of `stride` elements, NaN between them.
template <typename T>
struct Stored {
  Stored(int64_t rows, int64_t columns, int64_t padding, std::mt19937& engine)
      : values(rows, columns), stride(columns + padding) {
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    memory.assign(static_cast<size_t>(rows * stride + 1), std::numeric_limits<T>::quiet_NaN());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const float value = uniform(engine);
        values(r, c) = static_cast<double>(value);
        memory[static_cast<size_t>(r * stride + c)] = static_cast<T>(value);
      }
    }
  }
  GemmOperand<T> operand(bool transposed) const { return {memory.data(), stride, transposed}; }
  Matrix op(bool transposed) const { return transposed ? Matrix(values.transpose()) : values; }

  Matrix values;
  int64_t stride;
  std::vector<T> memory;
};

template <typename T>
void check(const Case& test, unsigned seed) {
  std::mt19937 engine(seed);
  const Stored<T> a(test.transpose_a ? test.k : test.m, test.transpose_a ? test.m : test.k, 3,
                    engine);
  const Stored<T> b(test.transpose_b ? test.n : test.k, test.transpose_b ? test.k : test.n, 1,
                    engine);
  Stored<T> c(test.m, test.n, 2, engine);
  Matrix base = test.beta * c.values;
  if (test.beta == 0.0) {  // must be written, not multiplied
    c.memory.assign(c.memory.size(), std::numeric_limits<T>::quiet_NaN());
    base = Matrix::Zero(test.m, test.n);
  }
  gemm<T>(c.memory.data(), c.stride, a.operand(test.transpose_a), b.operand(test.transpose_b),
          test.m, test.n, test.k, static_cast<T>(test.alpha), static_cast<T>(test.beta));
  const Matrix left = a.op(test.transpose_a);
  const Matrix right = b.op(test.transpose_b);
  const Matrix expected = test.alpha * left * right + base;
  const Matrix magnitude =
      std::abs(test.alpha) * left.cwiseAbs() * right.cwiseAbs() + base.cwiseAbs();
  // k products, k sums, alpha, beta and the last sum: k + 3 roundings of at most the magnitude.
  const double terms = static_cast<double>(test.k + 3) * std::numeric_limits<T>::epsilon();
  for (int64_t i = 0; i < test.m; ++i) {
    for (int64_t j = 0; j < test.n; ++j) {
      const double value = static_cast<double>(c.memory[static_cast<size_t>(i * c.stride + j)]);
      CAPTURE(i);
      CAPTURE(j);
      CHECK(std::abs(value - expected(i, j)) <= terms * magnitude(i, j));
    }
    // The padding between rows is not ours.
    CHECK(std::isnan(c.memory[static_cast<size_t>(i * c.stride + test.n)]));
  }
}

}  // namespace

TEST_CASE("gemm: every transposition, alpha and beta") {
  const int64_t extents[][3] = {{1, 1, 1}, {3, 5, 2}, {17, 9, 33}, {64, 10, 128}, {40, 70, 100}};
  unsigned seed = 1;
  for (const auto& [m, n, k] : extents) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {0.5, -2.0}}) {
          const Case test{m, n, k, transpose_a, transpose_b, alpha, beta};
          check<float>(test, seed);
          check<double>(test, seed++);
        }
      }
    }
  }
}

TEST_CASE("gemm: with k = 0 the product is zero, with m or n = 0 nothing happens") {
  for (const double beta : {0.0, 1.0, 3.0}) {
    check<float>({4, 5, 0, false, true, 1.0, beta}, 5);
    check<double>({4, 5, 0, true, false, 1.0, beta}, 5);
    check<float>({0, 5, 3, false, true, 1.0, beta}, 5);
    check<double>({4, 0, 3, false, false, 1.0, beta}, 5);
  }
}

TEST_CASE("gemm: the same call gives the same bits") {
  std::mt19937 engine(3);
  const Stored<float> a(65, 130, 0, engine);
  const Stored<float> b(47, 130, 0, engine);
  std::vector<float> first(65 * 47);
  std::vector<float> second(65 * 47);
  for (std::vector<float>* c : {&first, &second}) {
    gemm<float>(c->data(), 47, a.operand(false), b.operand(true), 65, 47, 130, 1.0f, 0.0f);
  }
  CHECK(first == second);
}

TEST_CASE("gemm: the BLAS has a name and a number of threads") {
  CHECK(kernels::cpu::blas_name().find_first_of("0123456789") != std::string::npos);
  kernels::cpu::blas_set_num_threads(1);
  CHECK(kernels::cpu::blas_num_threads() == 1);
}
