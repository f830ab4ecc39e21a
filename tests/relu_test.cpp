// relu: exact in every dtype, with NaN, the infinities and both zeros.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("relu: gradcheck") {
  const Tensor input = random_tensor({5, 7}, DType::Float64, 1);
  REQUIRE(to_matrix(input).cwiseAbs().minCoeff() > 1e-4);  // no kink within a step of the check
  gradcheck([](const auto& in) { return ops::relu(in[0]); }, {input});
}

TEST_CASE("relu: forward and backward are exact") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 31}, Shape{600}}) {
      Tensor input = random_tensor(shape, dtype, 2).requires_grad_();
      const Tensor grad = random_tensor(shape, dtype, 3);
      const Matrix x = to_matrix(input);
      const Matrix g = to_matrix(grad);
      const Matrix mask = (x.array() > 0.0).cast<double>();
      for (int times = 1; times <= 2; ++times) {
        const Tensor output = ops::relu(input);
        CHECK(output.shape() == shape);
        CHECK(to_matrix(output) == x.cwiseMax(0.0));
        output.backward(grad);
        CHECK(to_matrix(input.grad()) == times * g.cwiseProduct(mask));
      }
    }
  }
}

TEST_CASE("relu: NaN stays, the gradient at zero is zero") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloatingTypes) {
    Tensor input =
        Tensor::from_values(std::vector<double>{NAN, inf, -inf, 0.0, -0.0}, {5}).to(dtype);
    input.requires_grad_();
    const Tensor output = ops::relu(input);
    const Matrix values = to_matrix(output);
    CHECK(std::isnan(values(0)));
    CHECK(values(1) == inf);
    CHECK(values(2) == 0.0);
    CHECK(values(3) == 0.0);
    CHECK(values(4) == 0.0);
    output.backward(ones({5}, dtype));
    const Matrix grad = to_matrix(input.grad());
    CHECK(grad(0) == 1.0);
    CHECK(grad(1) == 1.0);
    CHECK(grad.rightCols(3) == Matrix::Zero(1, 3));
  }
}

TEST_CASE("relu: errors") {
  check_error([] { ops::relu(zeros({2}, DType::Int64)); }, {"relu", "Int64", "floating"});
  check_error([] { ops::relu(Tensor()); }, {"relu", "undefined"});
  check_error([] { ops::relu(cuda_tensor({2}, DType::Float32)); }, {"relu", "cuda:0"});
}
