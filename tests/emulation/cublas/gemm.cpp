// The products, over Eigen: fp16 and bf16 with fp32 accumulation, TF32 only when asked for.
#include "tests/emulation/cublas/gemm.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/streams.h"

namespace lockstep::emulation {
namespace {

using Status = cublasStatus_t;
using FloatMatrix = Eigen::MatrixXf;
using DoubleMatrix = Eigen::MatrixXd;

Status complain(const char* function, const std::string& what, Status status) {
  std::fprintf(stderr, "emulation: %s: %s\n", function, what.c_str());
  return status;
}

Status check_handle(cublasHandle_t handle, const char* function) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is_valid_stream(handle->stream)) {
    return complain(function, "the stream is not valid", CUBLAS_STATUS_INVALID_VALUE);
  }
  if (current_device != handle->device) {
    return complain(function,
                    "handle of device " + std::to_string(handle->device) + " while device " +
                        std::to_string(current_device) + " is current",
                    CUBLAS_STATUS_EXECUTION_FAILED);
  }
  if (resolve_stream(handle->stream)->device != handle->device) {
    return complain(function, "the handle's stream belongs to another device",
                    CUBLAS_STATUS_EXECUTION_FAILED);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Lies in memory that the handle's device may touch. cuBLAS cannot know; a GPU would fault.
bool check_extent(cublasHandle_t handle, const char* function, const char* name, const View& view) {
  if (view.rows == 0 || view.columns == 0) return true;
  Region region;
  const int device = device_of_address(view.data);
  if (device >= 0 && peer_access_enabled(handle->device, device) &&
      find_region(view.data, &region) && region.live &&
      view.end() <= region.begin + region.nbytes) {
    return true;
  }
  report("cublas",
         std::string(function) + ": matrix " + name + " (" + std::to_string(view.rows) + "x" +
             std::to_string(view.columns) + ", leading dimension " + std::to_string(view.leading) +
             ") does not fit: it starts at " + describe(view.data),
         cudaErrorIllegalAddress);
  return false;
}

enum class Precision { Half, Single, Tf32, Double };

// The combinations of types that cuBLAS documents; anything else is CUBLAS_STATUS_NOT_SUPPORTED.
bool find_precision(const Gemm& gemm, Precision* precision) {
  const cudaDataType in = gemm.a.type, out = gemm.c.type;
  if (gemm.b.type != in) return false;
  switch (gemm.compute) {
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      *precision = Precision::Double;
      return in == CUDA_R_64F && out == CUDA_R_64F;
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      *precision = Precision::Half;
      return in == CUDA_R_16F && out == CUDA_R_16F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      *precision = Precision::Single;
      break;
    default:
      return false;
  }
  const bool asked = gemm.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                     (gemm.handle->math == CUBLAS_TF32_TENSOR_OP_MATH &&
                      gemm.compute != CUBLAS_COMPUTE_32F_PEDANTIC);
  if (in == CUDA_R_32F && asked) *precision = Precision::Tf32;
  return (in == CUDA_R_16F || in == CUDA_R_16BF || in == CUDA_R_32F) &&
         (out == CUDA_R_32F || out == in);
}

// alpha or beta: one in host memory is read by the call, one in device memory by the operation.
class Scalar {
 public:
  Scalar(const Gemm& gemm, const void* pointer, Precision precision)
      : pointer_(pointer),
        type_(precision == Precision::Double ? CUDA_R_64F
              : precision == Precision::Half ? CUDA_R_16F
                                             : CUDA_R_32F),
        on_device_(gemm.handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    if (!on_device_) value_ = read();
  }
  double get() const {
    if (!on_device_) return value_;
    {
      std::lock_guard lock(kernel_mutex());
      check_range(pointer_, size_of(type_), RangeAccess::ReadInitialised);
    }
    return read();
  }

 private:
  double read() const {
    if (type_ == CUDA_R_16F) return __half2float(*static_cast<const __half*>(pointer_));
    if (type_ == CUDA_R_64F) return *static_cast<const double*>(pointer_);
    return *static_cast<const float*>(pointer_);
  }

  const void* pointer_;
  cudaDataType type_;
  bool on_device_;
  double value_ = 0;
};

struct Product {
  View a, b, c;
};

template <typename Matrix>
void multiply(const Gemm& gemm, const Product& views, double alpha, double beta, bool tf32) {
  using S = typename Matrix::Scalar;
  check_view(views.a, RangeAccess::ReadInitialised);
  check_view(views.b, RangeAccess::ReadInitialised);
  Matrix a = load<Matrix>(views.a), b = load<Matrix>(views.b);
  if constexpr (std::is_same_v<Matrix, FloatMatrix>) {
    if (tf32) {
      round_to_tf32(a);
      round_to_tf32(b);
    }
  }
  if (gemm.transpose_a != CUBLAS_OP_N) a.transposeInPlace();
  if (gemm.transpose_b != CUBLAS_OP_N) b.transposeInPlace();
  Matrix result = static_cast<S>(alpha) * (a * b);
  if (beta != 0) {  // with beta == 0, C is not read: it may be uninitialised
    check_view(views.c, RangeAccess::ReadInitialised);
    result += static_cast<S>(beta) * load<Matrix>(views.c);
  }
  check_view(views.c, RangeAccess::Write);
  store(views.c, result);
}

Status check_arguments(const Gemm& gemm) {
  if (const Status status = check_handle(gemm.handle, gemm.function)) return status;
  if (gemm.m < 0 || gemm.n < 0 || gemm.k < 0 || gemm.batch_count < 0) {
    return complain(gemm.function, "a size is negative", CUBLAS_STATUS_INVALID_VALUE);
  }
  if (gemm.alpha == nullptr || gemm.beta == nullptr) {
    return complain(gemm.function, "alpha or beta is null", CUBLAS_STATUS_INVALID_VALUE);
  }
  const int rows_a = gemm.transpose_a == CUBLAS_OP_N ? gemm.m : gemm.k;
  const int rows_b = gemm.transpose_b == CUBLAS_OP_N ? gemm.k : gemm.n;
  if (gemm.a.leading < std::max(1, rows_a) || gemm.b.leading < std::max(1, rows_b) ||
      gemm.c.leading < std::max(1, gemm.m)) {
    return complain(gemm.function, "a leading dimension is smaller than the matrix",
                    CUBLAS_STATUS_INVALID_VALUE);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// The three matrices of every product; false when one leaves its memory, which was reported.
bool collect_products(const Gemm& g, std::vector<Product>& products) {
  const bool plain_a = g.transpose_a == CUBLAS_OP_N, plain_b = g.transpose_b == CUBLAS_OP_N;
  for (int i = 0; i < g.batch_count; ++i) {
    const Product p{g.a.view(plain_a ? g.m : g.k, plain_a ? g.k : g.m, i),
                    g.b.view(plain_b ? g.k : g.n, plain_b ? g.n : g.k, i), g.c.view(g.m, g.n, i)};
    if (!check_extent(g.handle, g.function, "A", p.a) ||
        !check_extent(g.handle, g.function, "B", p.b) ||
        !check_extent(g.handle, g.function, "C", p.c)) {
      return false;
    }
    products.push_back(p);
  }
  return true;
}

// Each matrix once: what a product cannot do without. C is counted as written only, since whether
// it is read depends on beta, which may be in device memory.
void count_traffic(const std::vector<Product>& products) {
  for (const Product& p : products) {
    const auto nbytes = [](const View& v) {
      return static_cast<int64_t>(v.column_bytes()) * v.columns;
    };
    count(&Counters::library_bytes_read, nbytes(p.a) + nbytes(p.b));
    count(&Counters::library_bytes_written, nbytes(p.c));
  }
}

}  // namespace

cublasStatus_t enqueue_gemm(const Gemm& gemm) {
  if (const Status status = check_arguments(gemm)) return status;
  Precision precision{};
  if (!find_precision(gemm, &precision)) {
    return complain(gemm.function, "this combination of types is not supported",
                    CUBLAS_STATUS_NOT_SUPPORTED);
  }
  const Scalar alpha(gemm, gemm.alpha, precision), beta(gemm, gemm.beta, precision);
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch_count == 0) return CUBLAS_STATUS_SUCCESS;
  std::vector<Product> products;
  if (!collect_products(gemm, products)) return CUBLAS_STATUS_SUCCESS;  // the fault surfaces later
  count(&Counters::library_calls);
  count_traffic(products);
  const int device = gemm.handle->device;
  enqueue(gemm.handle->stream, gemm.function,
          [gemm, alpha, beta, device, precision, products = std::move(products)] {
            DeviceAccess access(device);
            for (const Product& product : products) {
              if (precision == Precision::Double) {
                multiply<DoubleMatrix>(gemm, product, alpha.get(), beta.get(), false);
              } else {
                multiply<FloatMatrix>(gemm, product, alpha.get(), beta.get(),
                                      precision == Precision::Tf32);
              }
            }
          });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace lockstep::emulation
