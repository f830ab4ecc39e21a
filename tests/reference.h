// What the tests compare with: Eigen matrices of double, random tensors with a fixed seed, and a
// comparison whose bound comes from the number of roundings. No other code uses it.
#pragma once

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace lockstep::test {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Uniform in [low, high), the same for a seed everywhere; rounded to the dtype.
inline Tensor random_tensor(const Shape& shape, DType dtype, unsigned seed, double low = -1.0,
                            double high = 1.0) {
  std::mt19937_64 engine(seed);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& value : values) {
    value = low + (high - low) * (static_cast<double>(engine() >> 11) * 0x1p-53);
  }
  return Tensor::from_values(values, shape).to(dtype);
}

/// The tensor's values, exactly: [rows, last dimension]; a vector is one row, a scalar [1, 1].
inline Matrix to_matrix(const Tensor& tensor) {
  const std::vector<double> values = tensor.to(DType::Float64).to_vector<double>();
  const int64_t columns = tensor.dim() == 0 ? 1 : tensor.size(-1);
  int64_t rows = 1;
  for (int d = 0; d + 1 < tensor.dim(); ++d) rows *= tensor.size(d);
  Matrix result(rows, columns);
  for (size_t i = 0; i < values.size(); ++i) result.data()[i] = values[i];
  return result;
}

/// The distance from 1 to the next number of the type.
inline double epsilon(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return std::numeric_limits<double>::epsilon();
    case DType::Float32:
      return std::numeric_limits<float>::epsilon();
    case DType::Float16:
      return 0x1p-10;
    case DType::BFloat16:
      return 0x1p-7;
    default:
      return 0.0;
  }
}

/// The type that sums of this type are computed in.
inline DType accumulate_dtype(DType dtype) {
  return is_reduced_floating(dtype) ? DType::Float32 : dtype;
}

/// Checks every element: |actual - expected| <= terms * eps(accumulation type) * magnitude +
/// eps(type) * |expected|: `terms` roundings of numbers no larger than `magnitude` (the sum of the
/// absolute values that were added), and the last one to the type itself. Reports the worst index.
inline void check_close(const Tensor& actual, const Matrix& expected, const Matrix& magnitude,
                        double terms) {
  const Matrix values = to_matrix(actual);
  REQUIRE(values.size() == expected.size());
  REQUIRE(magnitude.size() == expected.size());
  const DType dtype = actual.dtype();
  const double inner = terms * epsilon(accumulate_dtype(dtype));
  const double smallest = dtype == DType::Float16 ? 0x1p-24 : 0.0;  // half's subnormals
  double worst = -1.0;
  Eigen::Index worst_index = 0;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const double bound =
        inner * magnitude.data()[i] + epsilon(dtype) * std::abs(expected.data()[i]) + smallest;
    const double error = std::abs(values.data()[i] - expected.data()[i]);
    const double ratio = error == 0.0 ? 0.0 : error / bound;
    if (ratio > worst || std::isnan(ratio)) {
      worst = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
      worst_index = i;
    }
  }
  if (values.size() == 0) return;
  CAPTURE(dtype_name(dtype));
  CAPTURE(worst_index);
  CAPTURE(values.data()[worst_index]);
  CAPTURE(expected.data()[worst_index]);
  CHECK(worst <= 1.0);  // the largest error, in units of its bound
}

/// The same where each element is one formula of a few roundings: magnitude = |expected|.
inline void check_close(const Tensor& actual, const Matrix& expected, double terms) {
  check_close(actual, expected, expected.cwiseAbs(), terms);
}

/// The message of the Error that `body` throws; empty when it throws none.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return std::string();
}

/// Checks that `body` throws an Error whose message has every part.
template <typename Body>
void check_error(Body&& body, std::initializer_list<const char*> parts) {
  const std::string message = error_of(body);
  CAPTURE(message);
  for (const std::string part : parts) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

/// A tensor that says it is on a CUDA device, to see how a build without CUDA refuses it.
inline Tensor cuda_tensor(const Shape& shape, DType dtype) {
  auto owner = std::make_shared<std::vector<double>>(static_cast<size_t>(shape.numel()) + 1);
  const int64_t nbytes = shape.numel() * element_size(dtype);
  void* const data = owner->data();
  return Tensor::from_storage(
      Storage::borrow(data, nbytes, Device(DeviceType::CUDA, 0), std::move(owner)), 0, shape,
      dtype);
}

inline constexpr DType kFloatingTypes[] = {DType::Float64, DType::Float32, DType::Float16,
                                           DType::BFloat16};

}  // namespace lockstep::test
