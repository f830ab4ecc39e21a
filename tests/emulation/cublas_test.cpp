// The emulated cuBLAS against naive loops in double, for every combination that the product uses;
// and what it refuses.
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <cmath>
#include <random>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct Handle {
  cublasHandle_t value = nullptr;
  Handle() { REQUIRE(cublasCreate(&value) == CUBLAS_STATUS_SUCCESS); }
  ~Handle() { cublasDestroy(value); }
};

template <typename T>
cudaDataType type_of();
template <>
cudaDataType type_of<float>() {
  return CUDA_R_32F;
}
template <>
cudaDataType type_of<double>() {
  return CUDA_R_64F;
}
template <>
cudaDataType type_of<__half>() {
  return CUDA_R_16F;
}
template <>
cudaDataType type_of<__nv_bfloat16>() {
  return CUDA_R_16BF;
}

template <typename T>
double to_double(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

// Small multiples of 1/8: products and sums of a few dozen are exact in fp32, so results can be
// compared with ==, after one rounding to the type of C.
template <typename T>
std::vector<T> random_matrix(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) value = T(static_cast<float>(int(random() % 17) - 8) / 8.0f);
  return values;
}

template <typename In, typename Out>
void check_gemm(bool transpose_a, bool transpose_b, double alpha, double beta,
                cublasComputeType_t compute) {
  const int m = 5, n = 7, k = 9, batch = 3;
  const int lda = (transpose_a ? k : m) + 2, ldb = (transpose_b ? n : k) + 1, ldc = m + 3;
  const int columns_a = transpose_a ? m : k, columns_b = transpose_b ? k : n;
  const long long stride_a = lda * columns_a, stride_b = ldb * columns_b, stride_c = ldc * n;
  const auto a = random_matrix<In>(size_t(stride_a) * batch, 1);
  const auto b = random_matrix<In>(size_t(stride_b) * batch, 2);
  const auto c = random_matrix<Out>(size_t(stride_c) * batch, 3);
  DeviceArray<In> da(a), db(b);
  DeviceArray<Out> dc(c);
  Handle handle;
  const float alpha_float = float(alpha), beta_float = float(beta);
  const bool is_double = compute == CUBLAS_COMPUTE_64F;
  const auto op = [](bool t) { return t ? CUBLAS_OP_T : CUBLAS_OP_N; };
  REQUIRE(cublasGemmStridedBatchedEx(
              handle.value, op(transpose_a), op(transpose_b), m, n, k,
              is_double ? static_cast<const void*>(&alpha) : &alpha_float, da.data(), type_of<In>(),
              lda, stride_a, db.data(), type_of<In>(), ldb, stride_b,
              is_double ? static_cast<const void*>(&beta) : &beta_float, dc.data(), type_of<Out>(),
              ldc, stride_c, batch, compute, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  const auto got = dc.to_host();
  auto expected = c;
  for (int i = 0; i < batch; ++i) {
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0;
        for (int j = 0; j < k; ++j) {
          const int at = transpose_a ? j + row * lda : row + j * lda;
          const int bt = transpose_b ? column + j * ldb : j + column * ldb;
          sum += to_double(a[size_t(i * stride_a + at)]) * to_double(b[size_t(i * stride_b + bt)]);
        }
        Out& out = expected[size_t(i * stride_c + row + column * ldc)];
        const double old = beta == 0 ? 0.0 : beta * to_double(out);
        out = Out(static_cast<float>(alpha * sum + old));
      }
    }
  }
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(to_double(got[i]) == to_double(expected[i]));  // what lies between columns included
  }
}

}  // namespace

TEST_CASE("products of all types, transposed or not, accumulating or not") {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      for (double beta : {0.0, 1.0}) {
        const auto check = [&]<typename In, typename Out>(cublasComputeType_t compute) {
          check_gemm<In, Out>(transpose_a, transpose_b, 2.0, beta, compute);
        };
        check.operator()<float, float>(CUBLAS_COMPUTE_32F);
        check.operator()<double, double>(CUBLAS_COMPUTE_64F);
        check.operator()<__half, __half>(CUBLAS_COMPUTE_32F);
        check.operator()<__half, float>(CUBLAS_COMPUTE_32F);
        check.operator()<__nv_bfloat16, __nv_bfloat16>(CUBLAS_COMPUTE_32F);
        check.operator()<__nv_bfloat16, float>(CUBLAS_COMPUTE_32F);
      }
    }
  }
}

TEST_CASE("with beta = 0, C may be anything") {
  Handle handle;
  DeviceArray<float> a(std::vector<float>{2}), b(std::vector<float>{3}), c(1);  // c is NaN
  const float one = 1, zero = 0;
  REQUIRE(cublasGemmEx(handle.value, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a.data(), CUDA_R_32F,
                       1, b.data(), CUDA_R_32F, 1, &zero, c.data(), CUDA_R_32F, 1,
                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.to_host()[0] == 6.0f);
}

TEST_CASE("TF32 only when it was asked for") {
  Handle handle;
  const float fine = 1.0f + std::ldexp(1.0f, -20);
  DeviceArray<float> a(std::vector<float>{fine}), b(std::vector<float>{1});
  DeviceArray<float> c(std::vector<float>{0});
  const float one = 1, zero = 0;
  const auto run = [&](cublasComputeType_t compute) {
    REQUIRE(cublasGemmEx(handle.value, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a.data(),
                         CUDA_R_32F, 1, b.data(), CUDA_R_32F, 1, &zero, c.data(), CUDA_R_32F, 1,
                         compute, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    return c.to_host()[0];
  };
  CHECK(run(CUBLAS_COMPUTE_32F) == fine);
  CHECK(run(CUBLAS_COMPUTE_32F_FAST_TF32) == 1.0f);
  cublasSetMathMode(handle.value, CUBLAS_TF32_TENSOR_OP_MATH);
  CHECK(run(CUBLAS_COMPUTE_32F) == 1.0f);
  CHECK(run(CUBLAS_COMPUTE_32F_PEDANTIC) == fine);
}

TEST_CASE("what cuBLAS refuses, and what a GPU would fault on") {
  Reports reports;
  Handle handle;
  DeviceArray<float> x(std::vector<float>(16, 1.0f));
  const float one = 1, zero = 0;
  const auto run = [&](int m, int n, int k, int leading, cudaDataType type) {
    return cublasGemmEx(handle.value, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, x.data(), type,
                        leading, x.data(), type, 4, &zero, x.data(), CUDA_R_32F, 4,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  CHECK(run(4, 4, 4, 3, CUDA_R_32F) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(-1, 4, 4, 4, CUDA_R_32F) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(4, 4, 4, 4, CUDA_R_64F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(run(0, 4, 4, 4, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  CHECK_CLEAN(reports);
  CHECK(run(4, 4, 4, 5, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  CHECK_REPORTED(reports, "matrix A (4x4, leading dimension 5) does not fit");
  cudaSetDevice(1);
  CHECK(run(4, 4, 4, 4, CUDA_R_32F) == CUBLAS_STATUS_EXECUTION_FAILED);
  cudaSetDevice(0);
}
