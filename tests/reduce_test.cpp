// Sums: exact where integers make them exact, bounded by the depth of the tree elsewhere.
#include "kernels/reduce.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace lockstep;
namespace cpu = lockstep::kernels::cpu;

namespace {

template <typename T>
std::vector<T> integers(int64_t n) {
  std::vector<T> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(static_cast<int>(i * 37 % 101) - 40));
  }
  return values;
}

template <typename T>
void check_exact(int64_t n) {
  const std::vector<T> values = integers<T>(n);
  int64_t expected = 0;
  int64_t squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = i * 37 % 101 - 40;
    expected += value;
    squares += value * value;
  }
  CHECK(cpu::sum(values.data(), n) == static_cast<double>(expected));
  CHECK(cpu::sum_of_squares(values.data(), n) == static_cast<double>(squares));
}

template <typename T>
void check_column_sum(int64_t rows, int64_t columns) {
  const std::vector<T> input = integers<T>(rows * columns);
  std::vector<T> sums(static_cast<size_t>(columns), static_cast<T>(float(NAN)));
  cpu::column_sum(sums.data(), input.data(), rows, columns, false);
  std::vector<float> expected(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      expected[static_cast<size_t>(c)] += static_cast<float>((r * columns + c) * 37 % 101 - 40);
    }
  }
  for (size_t c = 0; c < sums.size(); ++c) {
    REQUIRE(static_cast<float>(sums[c]) == static_cast<float>(static_cast<T>(expected[c])));
  }
  cpu::column_sum(sums.data(), input.data(), rows, columns, true);
  for (size_t c = 0; c < sums.size(); ++c) {
    const T once = static_cast<T>(expected[c]);
    const T twice = static_cast<T>(static_cast<float>(once) + expected[c]);
    REQUIRE(static_cast<float>(sums[c]) == static_cast<float>(twice));
  }
}

template <typename Check>
void for_each_type(Check&& check) {
  check(float{});
  check(double{});
  check(Half{});
  check(BFloat16{});
}

}  // namespace

TEST_CASE("sum and sum_of_squares: exact for integers, at every edge of a block") {
  for (const int64_t n : {0, 1, 7, 8, 9, 1023, 1024, 1025, 2048, 2049, 5000, 100003}) {
    CAPTURE(n);
    for_each_type([&](auto zero) { check_exact<decltype(zero)>(n); });
  }
}

TEST_CASE("sum: a million terms that a running sum in fp32 would lose") {
  const std::vector<float> values(1 << 20, 0.1f);
  CHECK(cpu::sum(values.data(), 1 << 20) == static_cast<double>(0.1f) * (1 << 20));
}

TEST_CASE("sum: in double the error grows with the depth, not with the length") {
  constexpr int64_t kCount = 1 << 20;
  std::mt19937_64 engine(11);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<double> values(kCount);
  long double expected = 0.0L;
  long double magnitude = 0.0L;
  for (double& value : values) {
    value = uniform(engine);
    expected += value;
    magnitude += std::abs(value);
  }
  // 128 additions in a lane, 3 over the lanes, 10 in the tree.
  const long double bound = 141.0L * 0x1p-53L * magnitude;
  CHECK(std::abs(cpu::sum(values.data(), kCount) - expected) <= bound);
}

TEST_CASE("column_sum: exact for integers, written and added") {
  for (const int64_t rows : {0, 1, 2, 63, 64, 65, 200}) {
    for (const int64_t columns : {1, 3, 10, 31, 32, 33, 100}) {
      CAPTURE(rows);
      CAPTURE(columns);
      for_each_type([&](auto zero) { check_column_sum<decltype(zero)>(rows, columns); });
    }
  }
}
