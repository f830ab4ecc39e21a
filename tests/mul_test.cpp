// mul by a number.
#include <doctest/doctest.h>

#include <cmath>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("mul: gradcheck of every spelling") {
  const Tensor input = random_tensor({3, 5}, DType::Float64, 1);
  gradcheck([](const auto& in) { return in[0] * -2.5; }, {input});
  gradcheck([](const auto& in) { return 3.0 * in[0]; }, {input});
  gradcheck([](const auto& in) { return in[0] / 7.0; }, {input});
}

TEST_CASE("mul: forward and backward equal the closed form") {
  const double factor = 0.1;  // not a number of any of the types
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 31}, Shape{600}}) {
      Tensor input = random_tensor(shape, dtype, 2).requires_grad_();
      const Tensor grad = random_tensor(shape, dtype, 3);
      for (int times = 1; times <= 2; ++times) {
        const Tensor output = input * factor;
        check_close(output, factor * to_matrix(input), 1);  // the factor and the product
        output.backward(grad);
        const Matrix expected = times * factor * to_matrix(grad);
        check_close(input.grad(), expected, 2);
      }
    }
  }
}

TEST_CASE("mul: powers of two are exact, zero times infinity is NaN") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor input = random_tensor({50}, dtype, 4);
    CHECK(to_matrix(input * 0.25) == 0.25 * to_matrix(input));
    CHECK(std::isnan((full({}, INFINITY, dtype) * 0.0).item()));
  }
}

TEST_CASE("mul: errors") {
  check_error([] { ops::mul(zeros({2}, DType::Int64), 2.0); }, {"mul", "Int64", "floating"});
  check_error([] { ops::mul(Tensor(), 2.0); }, {"mul", "undefined"});
  check_error([] { ops::mul(cuda_tensor({2}, DType::Float32), 2.0); }, {"mul", "cuda:0"});
}
