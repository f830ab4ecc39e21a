// What the tests of the product's kernels share: the same operation on the CPU and on an emulated
// device, and comparisons whose bounds come from the types.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/base/dtype.h"
#include "kernels/stream.h"
#include "tests/emulation/testing/harness.h"

#define LOCKSTEP_FLOATING float, double, Half, BFloat16

namespace lockstep::testing {

/// The edges of warps, blocks and 16-byte accesses.
inline const std::vector<int64_t> kEdgeSizes = {0, 1, 2, 7, 31, 32, 33, 255, 1023, 1025};

template <typename T>
double to_double(T value) {
  return static_cast<double>(value);
}

template <typename T>
T from_double(double value) {
  return static_cast<T>(static_cast<accumulate_t<T>>(value));
}

/// The distance from 1 to the next number of the type.
template <typename T>
constexpr double kEpsilon = std::numeric_limits<accumulate_t<T>>::epsilon();
template <>
inline constexpr double kEpsilon<Half> = 0x1p-10;
template <>
inline constexpr double kEpsilon<BFloat16> = 0x1p-7;

/// Uniform in [low, high).
template <typename T>
std::vector<T> random_values(int64_t n, unsigned seed, double low = -2.0, double high = 2.0) {
  std::mt19937_64 engine(seed);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) {
    const double unit = static_cast<double>(engine() >> 11) * 0x1p-53;
    value = from_double<T>(low + (high - low) * unit);
  }
  return values;
}

inline std::vector<int64_t> random_indices(int64_t n, unsigned seed, int64_t limit) {
  std::mt19937_64 engine(seed);
  std::vector<int64_t> values(static_cast<size_t>(n));
  for (int64_t& value : values) {
    value = static_cast<int64_t>(engine() % static_cast<uint64_t>(limit));
  }
  return values;
}

/// Runs body(stream) on a stream of its own and waits for it. The stream does not wait for the
/// legacy default stream, so what a kernel forgets to order is not ordered by accident.
template <typename Body>
void on_stream(Body&& body) {
  cudaStream_t stream = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  body(stream);
  LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(stream));
  LOCKSTEP_CUDA_CHECK(cudaStreamDestroy(stream));
}

/// The same numbers; NaN where NaN is.
template <typename T>
bool same(const std::vector<T>& actual, const std::vector<T>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = to_double(actual[i]), b = to_double(expected[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    MESSAGE("element ", i, ": ", a, ", expected ", b);
    return false;
  }
  return true;
}

/// |actual - expected| <= absolute + relative * |expected|.
template <typename T, typename E>
bool close(const std::vector<T>& actual, const std::vector<E>& expected, double relative,
           double absolute) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = to_double(actual[i]), b = to_double(expected[i]);
    if (std::abs(a - b) <= absolute + relative * std::abs(b)) continue;
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    MESSAGE("element ", i, ": ", a, ", expected ", b);
    return false;
  }
  return true;
}

}  // namespace lockstep::testing
