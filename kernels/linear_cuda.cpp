// The matrix products of linear by cuBLAS. cuBLAS stores matrices by columns: a row-major [r, c] is
// its c x r matrix, so the products are computed transposed, with the operands swapped.
#include "kernels/linear.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <array>
#include <limits>
#include <type_traits>

#include "core/base/dtype.h"
#include "kernels/cublas_api.h"
#include "kernels/cuda_check.h"

namespace lockstep::kernels::cuda {
namespace {

void check_cublas(int status, const char* call) {
  LOCKSTEP_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLAS: ", call,
                 " failed: ", cublas_api().get_status_name(status));
}

constexpr int kMaxDevices = 64;

/// One handle a thread and device: a handle must not be used by two threads at a time.
class Handles {
 public:
  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    for (const CublasHandle handle : handles_) {
      if (handle != nullptr) cublas_api().destroy(handle);
    }
  }

  /// That of the current device, set to the stream.
  CublasHandle get(Stream stream) {
    int device = 0;
    LOCKSTEP_CUDA_CHECK(cudaGetDevice(&device));
    LOCKSTEP_CHECK(device < kMaxDevices, "cuBLAS: device ", device, ", expected one below ",
                   kMaxDevices);
    CublasHandle& handle = handles_[static_cast<size_t>(device)];
    if (handle == nullptr) {
      check_cublas(cublas_api().create(&handle), "cublasCreate");
      // fp32 stays fp32 (no TF32), and the partial sums of 16-bit products stay fp32 too.
      const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
      check_cublas(cublas_api().set_math_mode(handle, mode), "cublasSetMathMode");
    }
    check_cublas(cublas_api().set_stream(handle, stream), "cublasSetStream");
    return handle;
  }

 private:
  std::array<CublasHandle, kMaxDevices> handles_{};
};

thread_local Handles handles;

template <typename T>
constexpr int kCudaType = std::is_same_v<T, double>     ? CUDA_R_64F
                          : std::is_same_v<T, Half>     ? CUDA_R_16F
                          : std::is_same_v<T, BFloat16> ? CUDA_R_16BF
                                                        : CUDA_R_32F;

int to_int(int64_t size) {
  LOCKSTEP_CHECK(size <= std::numeric_limits<int>::max(), "linear: size ", size,
                 ", cuBLAS takes sizes below 2^31");
  return static_cast<int>(size);
}

/// A matrix stored by columns, and whether its transpose is meant.
template <typename T>
struct Operand {
  const T* data;
  int64_t leading;
  bool transposed;
};

/// c [m x n, by columns] = a [m x k] b [k x n], added to c when `accumulate`.
template <typename T>
void gemm(T* c, Operand<T> a, Operand<T> b, int64_t m, int64_t n, int64_t k, bool accumulate,
          Stream stream) {
  using A = accumulate_t<T>;
  if (m == 0 || n == 0) return;
  if (k == 0) {  // an empty sum; cuBLAS refuses leading dimensions of zero
    if (accumulate) return;
    LOCKSTEP_CUDA_CHECK(cudaMemsetAsync(c, 0, static_cast<size_t>(m * n) * sizeof(T), stream));
    return;
  }
  const A alpha{1};
  const A beta{accumulate ? A{1} : A{0}};
  const int compute = std::is_same_v<T, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  const int status = cublas_api().gemm_ex(
      handles.get(stream), a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
      b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, to_int(m), to_int(n), to_int(k), &alpha, a.data,
      kCudaType<T>, to_int(a.leading), b.data, kCudaType<T>, to_int(b.leading), &beta, c,
      kCudaType<T>, to_int(m), compute, CUBLAS_GEMM_DEFAULT);
  check_cublas(status, "cublasGemmEx");
}

}  // namespace

template <typename T>
void linear_forward(T* output, const T* input, const T* weight, const T* bias, int64_t n,
                    int64_t in, int64_t out, cpu::Epilogue epilogue, Stream stream) {
  gemm<T>(output, {weight, in, true}, {input, in, false}, out, n, in, false, stream);
  bias_activation(output, bias, n, out, epilogue, stream);
}

template <typename T>
void linear_backward_weight(T* grad_weight, const T* grad_output, const T* input, int64_t n,
                            int64_t in, int64_t out, bool accumulate, Stream stream) {
  gemm<T>(grad_weight, {input, in, false}, {grad_output, out, true}, in, out, n, accumulate,
          stream);
}

template <typename T>
void linear_backward_input(T* grad_input, const T* grad_output, const T* weight, int64_t n,
                           int64_t in, int64_t out, bool accumulate, Stream stream) {
  gemm<T>(grad_input, {weight, in, false}, {grad_output, out, false}, in, n, out, accumulate,
          stream);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                    \
  template void linear_forward<T>(T*, const T*, const T*, const T*, int64_t, int64_t, int64_t,     \
                                  cpu::Epilogue, Stream);                                          \
  template void linear_backward_weight<T>(T*, const T*, const T*, int64_t, int64_t, int64_t, bool, \
                                          Stream);                                                 \
  template void linear_backward_input<T>(T*, const T*, const T*, int64_t, int64_t, int64_t, bool,  \
                                         Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
