// softmax and log_softmax against their closed forms in double, gradcheck, and the edges.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference_rows.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// A few roundings a row: the subtraction of the maximum, the exponential, the sum, the factor.
constexpr double kTerms = 6.0;

void check_shape(DType dtype, const Shape& shape) {
  CAPTURE(dtype_name(dtype));
  CAPTURE(shape.numel());
  Tensor input = random_tensor(shape, dtype, 3, -5.0, 5.0);
  const Matrix x = to_matrix(input);
  const Matrix spread = row_spread(x);
  const Matrix logp = log_softmax_reference(x);
  const Matrix p = logp.array().exp().matrix();

  const Tensor soft = ops::softmax(input);
  check_close(soft, p, (p.array() * spread.array()).matrix(), kTerms);
  const Tensor log_soft = ops::log_softmax(input);
  check_close(log_soft, logp, spread + logp.cwiseAbs(), kTerms);

  // The backward works from the output as it was stored, rounded to the dtype.
  const Tensor g_tensor = random_tensor(shape, dtype, 4);
  const Matrix g = to_matrix(g_tensor);
  input.requires_grad_();
  ops::softmax(input).backward(g_tensor);
  const Matrix y = to_matrix(soft);
  const Eigen::VectorXd dot = (g.array() * y.array()).rowwise().sum();
  const Matrix inner = g.colwise() - dot;
  check_close(input.grad(), (y.array() * inner.array()).matrix(),
              (y.array() * (g.cwiseAbs().colwise() + dot.cwiseAbs()).array()).matrix(), kTerms);
  autograd::zero_grad(input);
  ops::log_softmax(input).backward(g_tensor);
  const Eigen::VectorXd sum = g.rowwise().sum();
  const Matrix q = to_matrix(log_soft).array().exp().matrix();
  const Matrix part = (q.array().colwise() * sum.array()).matrix();
  const Matrix bound =
      (part.cwiseAbs().array() * (1.0 + to_matrix(log_soft).array().abs())).matrix();
  check_close(input.grad(), g - part, bound + g.cwiseAbs(), kTerms);
}

}  // namespace

TEST_CASE("softmax and log_softmax agree with the closed form") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{1}, Shape{5}, Shape{3, 1}, Shape{4, 7}, Shape{2, 31},
                               Shape{2, 32}, Shape{2, 33}, Shape{2, 3, 10}, Shape{1, 1025}}) {
      check_shape(dtype, shape);
    }
  }
}

TEST_CASE("softmax: rows sum to one, a shift changes nothing, a huge row does not overflow") {
  const Tensor x = Tensor::from_values(std::vector<float>{1e4f, 1e4f + 2, -1e4f}, {1, 3});
  const Tensor y = Tensor::from_values(std::vector<float>{0, 2, -2e4f}, {1, 3});
  CHECK(ops::softmax(x).to_vector<float>() == ops::softmax(y).to_vector<float>());
  const std::vector<float> p = ops::softmax(x).to_vector<float>();
  CHECK(std::abs(static_cast<double>(p[0]) + static_cast<double>(p[1]) - 1.0) <= 2 * 0x1p-23);
  CHECK(ops::log_softmax(x).to_vector<float>()[2] == doctest::Approx(-20002.126928).epsilon(1e-7));
}

TEST_CASE("softmax: NaN and infinity stay in their row") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from_values(std::vector<float>{0, inf, 1, 2, NAN, 3, 0, -inf}, {4, 2});
  for (const Tensor& y : {ops::softmax(x), ops::log_softmax(x)}) {
    const std::vector<float> values = y.to_vector<float>();
    CHECK(std::isnan(values[1]));
    CHECK(std::isfinite(values[2]));
    CHECK(std::isnan(values[5]));
    CHECK(!std::isnan(values[7]));
  }
}

TEST_CASE("softmax and log_softmax: gradcheck, also when the gradient is added") {
  const Tensor x = random_tensor({3, 5}, DType::Float64, 7, -2.0, 2.0);
  gradcheck([](const std::vector<Tensor>& in) { return ops::softmax(in[0]); }, {x.clone()});
  gradcheck([](const std::vector<Tensor>& in) { return ops::log_softmax(in[0]); }, {x.clone()});
  gradcheck(
      [](const std::vector<Tensor>& in) {
        return ops::add(ops::softmax(in[0]), ops::log_softmax(in[0]));
      },
      {x.clone()});
}

TEST_CASE("softmax: empty tensors and errors") {
  CHECK(ops::softmax(empty({0, 4})).numel() == 0);
  CHECK(ops::log_softmax(empty({3, 0})).numel() == 0);
  check_error([] { ops::softmax(zeros({})); }, {"softmax", "[]", "dimension"});
  check_error([] { ops::log_softmax(zeros({2}, DType::Int64)); },
              {"log_softmax", "Int64", "floating"});
}
