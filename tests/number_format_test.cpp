// Expected texts are what CPython's repr() prints.
#include "apps/number_format.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

using lockstep::apps::fixed;
using lockstep::apps::grouped;
using lockstep::apps::python_float;

TEST_CASE("python_float prints what repr() prints") {
  CHECK(python_float(2.2438907623291016) == "2.2438907623291016");
  CHECK(python_float(2.0) == "2.0");
  CHECK(python_float(0.0) == "0.0");
  CHECK(python_float(-0.0) == "-0.0");
  CHECK(python_float(-1.5) == "-1.5");
  CHECK(python_float(0.1) == "0.1");
  CHECK(python_float(0.0001) == "0.0001");
  CHECK(python_float(0.00001) == "1e-05");
  CHECK(python_float(0.000012345) == "1.2345e-05");
  CHECK(python_float(1e15) == "1000000000000000.0");
  CHECK(python_float(1e16) == "1e+16");
  CHECK(python_float(1.5e16) == "1.5e+16");
  CHECK(python_float(123456789012345680.0) == "1.2345678901234568e+17");
  CHECK(python_float(9999999999999998.0) == "9999999999999998.0");
  CHECK(python_float(1e22) == "1e+22");
  CHECK(python_float(1e100) == "1e+100");
  CHECK(python_float(-1e-100) == "-1e-100");
  CHECK(python_float(5e-324) == "5e-324");
  CHECK(python_float(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
  CHECK(python_float(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(python_float(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(python_float(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("python_float reads back as the same double") {
  constexpr uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  CAPTURE(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), static_cast<int>(i % 200) - 150);
    CHECK(std::strtod(python_float(value).c_str(), nullptr) == value);
  }
}

TEST_CASE("fixed and grouped") {
  CHECK(fixed(0.89, 4) == "0.8900");
  CHECK(fixed(1234.5678, 1) == "1234.6");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-123456) == "-123,456");
  CHECK(grouped(-123) == "-123");
  CHECK(grouped(12345678) == "12,345,678");
}
