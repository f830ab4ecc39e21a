// mean of all elements. The sum is taken in double, so the last rounding is nearly all of the
// error.
#include <doctest/doctest.h>

#include <cmath>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("mean: gradcheck") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}}) {
    gradcheck([](const auto& in) { return ops::mean(in[0]); },
              {random_tensor(shape, DType::Float64, 1)});
  }
}

TEST_CASE("mean: forward and backward equal the closed form") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 31}, Shape{2, 3000}}) {
      Tensor input = random_tensor(shape, dtype, 2).requires_grad_();
      const Matrix x = to_matrix(input);
      const auto n = static_cast<double>(shape.numel());
      CAPTURE(n);
      const double grad = to_matrix(full({}, 0.3, dtype))(0);
      for (int times = 1; times <= 2; ++times) {
        const Tensor output = ops::mean(input);
        CHECK(output.shape() == Shape{});
        CHECK(output.dtype() == dtype);
        // At most 128 + 3 + 2 additions in double; fp32 on the way to the 16-bit types.
        const double terms = dtype == DType::Float64 ? 134 : 1;
        check_close(
            output, Matrix::Constant(1, 1, x.sum() / n),
            Matrix::Constant(
                1, 1, dtype == DType::Float64 ? x.cwiseAbs().sum() / n : std::abs(x.sum() / n)),
            terms);
        output.backward(full({}, grad, dtype));
        check_close(input.grad(), Matrix::Constant(x.rows(), x.cols(), times * grad / n), 2);
      }
    }
  }
}

TEST_CASE("mean: the mean of nothing is NaN, and its gradient is empty") {
  for (const DType dtype : kFloatingTypes) {
    CHECK(std::isnan(ops::mean(zeros({0, 3}, dtype)).item()));
    Tensor input = zeros({0}, dtype).requires_grad_();
    ops::mean(input).backward();
    CHECK(input.grad().shape() == Shape({0}));
  }
}

TEST_CASE("mean: many small terms are not lost") {
  const int64_t n = 1 << 16;
  for (const DType dtype : kFloatingTypes) {
    const Tensor input = full({n}, 0x1p-7, dtype);  // a running sum in Half would stop at 16
    CHECK(ops::mean(input).item() == 0x1p-7);
  }
}

TEST_CASE("mean: errors") {
  check_error([] { ops::mean(zeros({2}, DType::Int64)); }, {"mean", "Int64", "floating"});
  check_error([] { ops::mean(Tensor()); }, {"mean", "undefined"});
  check_error([] { ops::mean(cuda_tensor({2}, DType::Float32)); }, {"mean", "cuda:0"});
}
