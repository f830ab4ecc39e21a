// The row maximum and exponentials under softmax and cross-entropy, on both CPU paths.
#include "kernels/row_exp.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace lockstep;
using kernels::cpu::row_exp_sum;
using kernels::cpu::row_max;

namespace {

std::vector<CpuCapability> capabilities() {
  if (cpu_capability() == CpuCapability::Avx2) {
    return {CpuCapability::Default, CpuCapability::Avx2};
  }
  MESSAGE("skipped: the AVX2 path (this CPU lacks it, or LOCKSTEP_CPU_CAPABILITY=default)");
  return {CpuCapability::Default};
}

/// The distance between the floats next to `value`.
double ulp(double value) {
  const float rounded = static_cast<float>(value);
  return std::max(
      0x1p-149, static_cast<double>(std::nextafter(rounded, 4.0f)) - static_cast<double>(rounded));
}

std::vector<float> random_row(int64_t n, unsigned seed, double low, double high) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<float> row(static_cast<size_t>(n));
  for (float& value : row) value = static_cast<float>(draw(engine));
  return row;
}

}  // namespace

TEST_CASE("row_exp_sum: the exponential is within 2 ulp, subnormal results included") {
  std::vector<float> row = random_row(200000, 5, -105.0, 0.0);
  const std::vector<float> tiny = random_row(20000, 6, -1e-6, 0.0);
  row.insert(row.end(), tiny.begin(), tiny.end());
  for (const float x : {0.0f, -0.0f, -87.33654f, -87.33655f, -103.97208f, -103.2789f, -1e30f}) {
    row.push_back(x);
  }
  const int64_t n = static_cast<int64_t>(row.size());
  for (const CpuCapability capability : capabilities()) {
    std::vector<float> exps(row.size());
    row_exp_sum(exps.data(), row.data(), n, 0.0f, capability);
    double worst = 0.0;
    size_t at = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const double exact = std::exp(static_cast<double>(row[i]));
      const double error = std::abs(static_cast<double>(exps[i]) - exact) / ulp(exact);
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    CAPTURE(static_cast<int>(capability));
    CAPTURE(row[at]);
    CAPTURE(exps[at]);
    CHECK(worst <= 2.0);
  }
}

TEST_CASE("row_exp_sum: infinities and NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const CpuCapability capability : capabilities()) {
    for (const int64_t n : {3, 8, 11}) {
      std::vector<float> row(static_cast<size_t>(n), 0.0f);
      std::vector<float> exps(row.size());
      row[1] = -inf;
      CHECK(row_exp_sum(exps.data(), row.data(), n, 0.0f, capability) ==
            static_cast<double>(n - 1));
      CHECK(exps[1] == 0.0f);
      row[1] = NAN;
      CHECK(std::isnan(row_exp_sum(exps.data(), row.data(), n, 0.0f, capability)));
      CHECK(std::isnan(exps[1]));
      std::fill(row.begin(), row.end(), -inf);
      CHECK(row_max(row.data(), n, capability) == -inf);
      CHECK(std::isnan(row_exp_sum(exps.data(), row.data(), n, -inf, capability)));
    }
  }
}

TEST_CASE("row_max and row_exp_sum touch exactly n elements, for every remainder") {
  for (const CpuCapability capability : capabilities()) {
    for (int64_t n = 1; n <= 40; ++n) {
      std::vector<float> row = random_row(n + 1, static_cast<unsigned>(n), -3.0, 3.0);
      row.back() = 100.0f;  // not part of the row
      const float max = *std::max_element(row.begin(), row.end() - 1);
      CHECK(row_max(row.data(), n, capability) == max);
      std::vector<float> exps(row.size(), -7.0f);
      const double sum = row_exp_sum(exps.data(), row.data(), n, max, capability);
      CHECK(exps.back() == -7.0f);
      double expected = 0.0;
      for (int64_t i = 0; i < n; ++i) expected += static_cast<double>(exps[static_cast<size_t>(i)]);
      const double eps = std::numeric_limits<double>::epsilon();
      CHECK(std::abs(sum - expected) <= static_cast<double>(n) * eps * expected);
      // Without a destination: the same sum.
      CHECK(row_exp_sum(static_cast<float*>(nullptr), row.data(), n, max, capability) == sum);
      // In place: the same values.
      row_exp_sum(row.data(), row.data(), n, max, capability);
      CHECK(std::equal(row.begin(), row.end() - 1, exps.begin()));
    }
  }
}

TEST_CASE("row_exp_sum: 16-bit rows give what their fp32 values give, piece by piece") {
  for (const CpuCapability capability : capabilities()) {
    for (const int64_t n : {1, 255, 256, 257, 600}) {
      const std::vector<float> wide = random_row(n, 9, -4.0, 4.0);
      std::vector<Half> half(wide.size());
      std::vector<float> rounded(wide.size());
      for (size_t i = 0; i < wide.size(); ++i) {
        half[i] = Half(wide[i]);
        rounded[i] = static_cast<float>(half[i]);
      }
      const float max = row_max(rounded.data(), n, capability);
      CHECK(row_max(half.data(), n, capability) == max);
      std::vector<float> exps(wide.size());
      std::vector<float> expected(wide.size());
      row_exp_sum(exps.data(), half.data(), n, max, capability);
      row_exp_sum(expected.data(), rounded.data(), n, max, capability);
      CHECK(exps == expected);
    }
  }
}
