// gelu against its closed form in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

double phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi); }

}  // namespace

TEST_CASE("gelu: gradcheck") {
  gradcheck([](const auto& in) { return ops::gelu(in[0]); },
            {random_tensor({4, 9}, DType::Float64, 1, -4.0, 4.0)});
}

TEST_CASE("gelu: forward and backward equal the closed form") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 31}, Shape{6000}}) {
      const double range = shape.numel() > 1000 ? 12.0 : 4.0;  // at 12, Phi is near fp32's smallest
      Tensor input = random_tensor(shape, dtype, 2, -range, range).requires_grad_();
      const Tensor grad = random_tensor(shape, dtype, 3);
      const Matrix x = to_matrix(input);
      const Matrix g = to_matrix(grad);
      const Matrix p = x.unaryExpr(&phi);
      const Matrix d = x.unaryExpr(&density);
      // The exponent -x^2 / 2 carries roundings that the exponential multiplies: x^2 Phi, which is
      // about |x| density, and as much more for the density; and some roundings of the formula.
      const Matrix slope = x.cwiseAbs().cwiseProduct(d);
      for (int times = 1; times <= 2; ++times) {
        const Tensor output = ops::gelu(input);
        check_close(output, x.cwiseProduct(p), x.cwiseAbs().cwiseProduct(p + slope), 8);
        output.backward(grad);
        const Matrix terms =
            p + slope +
            (x.array().square().matrix() + Matrix::Ones(x.rows(), x.cols())).cwiseProduct(slope);
        check_close(input.grad(), times * g.cwiseProduct(p + x.cwiseProduct(d)),
                    times * g.cwiseAbs().cwiseProduct(terms), 10);
      }
    }
  }
}

TEST_CASE("gelu: large inputs pass or vanish, NaN stays") {
  const Tensor input =
      Tensor::from_values(std::vector<float>{30.0f, -30.0f, NAN, 0.0f, INFINITY}, {5});
  const Matrix values = to_matrix(ops::gelu(input));
  CHECK(values(0) == 30.0);
  CHECK(std::abs(values(1)) <= std::numeric_limits<float>::min());
  CHECK(std::isnan(values(2)));
  CHECK(values(3) == 0.0);
  CHECK(values(4) == INFINITY);
}

TEST_CASE("gelu: every length gives the same bits, whichever loop computes an element") {
  const Tensor all = random_tensor({40}, DType::Float32, 5, -4.0, 4.0);
  const std::vector<float> expected = ops::gelu(all).to_vector<float>();
  for (int64_t begin = 0; begin < 40; ++begin) {
    const std::vector<float> part = ops::gelu(all.slice(begin, 40)).to_vector<float>();
    CHECK(std::equal(part.begin(), part.end(), expected.begin() + begin));
  }
}

TEST_CASE("gelu: errors") {
  check_error([] { ops::gelu(zeros({2}, DType::UInt8)); }, {"gelu", "UInt8", "floating"});
  check_error([] { ops::gelu(Tensor()); }, {"gelu", "undefined"});
  check_error([] { ops::gelu(cuda_tensor({2}, DType::Float32)); }, {"gelu", "cuda:0"});
}
