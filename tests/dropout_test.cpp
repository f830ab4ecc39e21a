// dropout: PyTorch's draws, the formula for each dtype, and its backward.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/autograd.h"
#include "core/ops.h"
#include "core/random.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// 1 / keep as the element type rounds it.
double kept_factor(DType dtype, double keep) {
  if (dtype == DType::Float64) return 1.0 / keep;
  const Tensor factor = full({}, static_cast<double>(1.0f / static_cast<float>(keep)));
  return factor.to(dtype).item();
}

}  // namespace

TEST_CASE("dropout gives PyTorch's draws") {
  manual_seed(0);
  const float k = 1.4285714626312256f;
  CHECK(ops::dropout(ones({10}), 0.3, true).to_vector<float>() ==
        std::vector<float>{0, 0, k, 0, k, 0, k, k, k, k});
}

TEST_CASE("dropout draws one 53-bit uniform an element, for every dtype and length") {
  for (const DType dtype : kFloatingTypes) {
    for (const int64_t n : {1, 7, 1023, 1024, 1025, 3000}) {
      const double p = 0.4;
      const double keep = 1.0 - p;
      Tensor x = random_tensor({n}, dtype, 1);
      x.requires_grad_();
      manual_seed(5);
      const Tensor y = ops::dropout(x, p, true);
      const double next = default_generator().uniform_double();
      y.backward(full({n}, 0.5, dtype));

      manual_seed(5);
      const Matrix values = to_matrix(x);
      Matrix expected(1, n);
      Matrix expected_grad(1, n);
      for (int64_t i = 0; i < n; ++i) {
        const bool kept = default_generator().uniform_double() < keep;
        const double factor = kept ? kept_factor(dtype, keep) : 0.0;
        expected(0, i) = values(0, i) * factor;
        expected_grad(0, i) = 0.5 * factor;
      }
      CHECK(default_generator().uniform_double() == next);
      check_close(y, expected, 1.0);
      CHECK(to_matrix(x.grad()) == expected_grad);
    }
  }
}

TEST_CASE("dropout keeps about 1 - p of the elements") {
  manual_seed(7);
  const int64_t n = 100000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const Tensor y = ops::dropout(ones({n}), p, true);
    double kept = 0;
    for (const float value : y.to_vector<float>()) kept += value != 0.0f ? 1 : 0;
    const double deviation = std::sqrt(static_cast<double>(n) * p * (1 - p));
    CHECK(std::abs(kept - static_cast<double>(n) * (1 - p)) <= 5 * deviation);
  }
}

TEST_CASE("dropout: nothing is drawn for p = 0, p = 1, or outside training") {
  Tensor x = random_tensor({5}, DType::Float32, 2);
  x.requires_grad_();
  manual_seed(3);
  const double first = default_generator().uniform_double();
  manual_seed(3);
  CHECK(ops::dropout(x, 0.0, true).is_same(x));
  CHECK(ops::dropout(x, 0.5, false).is_same(x));
  const Tensor none = ops::dropout(x, 1.0, true);
  CHECK(none.to_vector<float>() == std::vector<float>(5, 0.0f));
  none.backward(ones({5}));
  CHECK(x.grad().to_vector<float>() == std::vector<float>(5, 0.0f));
  CHECK(ops::dropout(empty({0}), 0.5, true).numel() == 0);
  CHECK(default_generator().uniform_double() == first);
}

TEST_CASE("dropout does not hide infinity") {
  manual_seed(0);  // the first element is dropped
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor y = ops::dropout(Tensor::from_values(std::vector<float>{inf, 1}, {2}), 0.3, true);
  CHECK(std::isnan(y.to_vector<float>()[0]));
}

TEST_CASE("dropout: gradcheck, also when the gradient is added") {
  gradcheck(
      [](const std::vector<Tensor>& in) {
        manual_seed(11);
        return ops::add(ops::dropout(in[0], 0.3, true), ops::dropout(in[0], 0.6, true));
      },
      {random_tensor({4, 5}, DType::Float64, 4)});
}

TEST_CASE("dropout refuses a bad probability and integers") {
  check_error([] { ops::dropout(ones({2}), -0.1, true); }, {"dropout", "p is -0.1"});
  check_error([] { ops::dropout(ones({2}), 1.1, false); }, {"p is 1.1"});
  check_error([] { ops::dropout(ones({2}, DType::Int64), 0.5, true); }, {"Int64", "floating"});
}
