// Cross-entropy: PyTorch's values, the closed form for every option, gradcheck, and the edges.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference_rows.h"

using namespace lockstep;
using namespace lockstep::test;
using ops::CrossEntropyOptions;
using ops::Reduction;

namespace {

Tensor int_tensor(const std::vector<int64_t>& values) {
  return Tensor::from_values(values, {static_cast<int64_t>(values.size())});
}

Tensor float_tensor(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from_values(values, shape);
}

/// Classes 0, 1, ... in a scrambled order; every third one is `ignored` when that is given.
std::vector<int64_t> some_targets(int64_t n, int64_t classes, const int64_t* ignored) {
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < n; ++i) {
    targets.push_back(ignored != nullptr && i % 3 == 1 ? *ignored : (i * 7 + 3) % classes);
  }
  return targets;
}

Matrix constant(double value) { return Matrix::Constant(1, 1, value); }

DType loss_dtype(DType dtype) { return dtype == DType::Float64 ? dtype : DType::Float32; }

struct Case {
  DType dtype;
  int64_t n;
  int64_t classes;
  bool weighted;
  int64_t ignore_index;
  bool some_ignored;
  double smoothing;
  Reduction reduction;
};

void check_case(const Case& c) {
  CAPTURE(dtype_name(c.dtype));
  CAPTURE(c.n);
  CAPTURE(c.classes);
  CAPTURE(c.weighted);
  CAPTURE(c.ignore_index);
  CAPTURE(c.some_ignored);
  CAPTURE(c.smoothing);
  CAPTURE(static_cast<int>(c.reduction));
  Tensor logits = random_tensor({c.n, c.classes}, c.dtype, 11, -4.0, 4.0);
  const auto targets = some_targets(c.n, c.classes, c.some_ignored ? &c.ignore_index : nullptr);
  CrossEntropyOptions options{
      .ignore_index = c.ignore_index, .reduction = c.reduction, .label_smoothing = c.smoothing};
  std::vector<double> weight;
  if (c.weighted) {
    options.weight = random_tensor({c.classes}, loss_dtype(c.dtype), 12, 0.5, 2.0);
    weight = options.weight.to(DType::Float64).to_vector<double>();
  }
  const auto expected =
      cross_entropy_reference(to_matrix(logits), targets, weight, c.ignore_index, c.smoothing);
  logits.requires_grad_();
  const Tensor loss = ops::cross_entropy(logits, int_tensor(targets), options);
  CHECK(loss.dtype() == loss_dtype(c.dtype));

  // Each sample's loss takes a few roundings of its magnitude: the subtraction of the maximum, the
  // exponential (2 ulp), and those of the weights.
  const double terms = 4.0;
  if (c.reduction == Reduction::None) {
    check_close(loss, expected.losses, expected.loss_magnitude, terms);
    const Tensor grad_loss = random_tensor({c.n}, loss.dtype(), 13);
    loss.backward(grad_loss);
    const Eigen::VectorXd g = to_matrix(grad_loss).row(0).transpose();
    check_close(logits.grad(), (expected.grad.array().colwise() * g.array()).matrix(),
                (expected.grad_magnitude.array().colwise() * g.array().abs()).matrix(), terms);
    return;
  }
  const double divisor = c.reduction == Reduction::Mean ? expected.divisor : 1.0;
  if (divisor == 0.0) {
    CHECK(std::isnan(loss.item()));
  } else {
    check_close(loss, constant(expected.losses.sum() / divisor),
                constant(expected.loss_magnitude.sum() / divisor), terms);
  }
  loss.backward();
  check_close(logits.grad(), expected.grad / std::max(divisor, 1e-300),
              expected.grad_magnitude / std::max(divisor, 1e-300), terms);
}

}  // namespace

TEST_CASE("cross_entropy gives PyTorch's values") {
  const Tensor x = float_tensor({1, 2, 3, 1, 0, -1, .5, .5, .5}, {3, 3});
  const Tensor t = int_tensor({2, 0, 1});
  const Tensor weight = float_tensor({1, 2, 3}, {3});
  const auto check = [&](const Tensor& targets, const CrossEntropyOptions& options, double value) {
    CAPTURE(value);
    CHECK(std::abs(ops::cross_entropy(x, targets, options).item() - value) <= 1e-6 * value);
  };
  check(t, {}, .6379413604736328);
  check(t, {.reduction = Reduction::Sum}, 1.9138240814208984);
  check(int_tensor({2, -100, 1}), {}, .7531090974807739);
  check(t, {.label_smoothing = .1}, .7046080231666565);
  check(t, {.weight = weight}, .6379414200782776);
  check(t, {.weight = weight, .label_smoothing = .1}, .7046080827713013);
  CHECK(std::isnan(ops::cross_entropy(x, int_tensor({-100, -100, -100})).item()));
}

TEST_CASE("cross_entropy: every option agrees with the closed form") {
  for (const DType dtype : kFloatingTypes) {
    for (const bool weighted : {false, true}) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        for (const Reduction reduction : {Reduction::None, Reduction::Mean, Reduction::Sum}) {
          const bool ignored = true;
          check_case({dtype, 7, 10, weighted, -100, !ignored, smoothing, reduction});
          check_case({dtype, 7, 10, weighted, -100, ignored, smoothing, reduction});
          // ignore_index may be a valid class, which then cannot be learned.
          check_case({dtype, 7, 10, weighted, 3, ignored, smoothing, reduction});
        }
      }
    }
  }
}

TEST_CASE("cross_entropy: shapes at the edges of a vector and of a buffer") {
  for (const DType dtype : kFloatingTypes) {
    for (const int64_t classes : {1, 2, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1023, 1025}) {
      for (const int64_t n : {0, 1, 4}) {
        check_case({dtype, n, classes, false, -100, false, 0.0, Reduction::Mean});
        check_case({dtype, n, classes, true, -100, true, 0.1, Reduction::Sum});
        check_case({dtype, n, classes, false, -100, true, 0.0, Reduction::None});
      }
    }
  }
}

TEST_CASE("cross_entropy: 100,000 classes cost no accuracy") {
  for (const DType dtype : {DType::Float32, DType::Float16}) {
    check_case({dtype, 2, 100000, false, -100, false, 0.0, Reduction::Mean});
    check_case({dtype, 2, 100000, true, -100, false, 0.1, Reduction::Mean});
  }
}

TEST_CASE("cross_entropy: gradcheck") {
  const Tensor weight = random_tensor({5}, DType::Float64, 21, 0.5, 2.0);
  for (const Reduction reduction : {Reduction::None, Reduction::Mean, Reduction::Sum}) {
    for (const double smoothing : {0.0, 0.2}) {
      for (const Tensor& w : {Tensor(), weight}) {
        const CrossEntropyOptions options{
            .weight = w, .reduction = reduction, .label_smoothing = smoothing};
        const Tensor targets = int_tensor({4, -100, 0, 2});
        gradcheck(
            [&](const std::vector<Tensor>& in) {
              return ops::cross_entropy(in[0], targets, options);
            },
            {random_tensor({4, 5}, DType::Float64, 22, -2.0, 2.0)});
      }
    }
  }
}

TEST_CASE("cross_entropy: ignored samples leave exactly zero gradient, whatever their logits") {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x = float_tensor({1, 2, 3, inf, -inf, NAN}, {2, 3});
  x.requires_grad_();
  const Tensor loss = ops::cross_entropy(x, int_tensor({1, -100}));
  loss.backward();
  CHECK(std::isfinite(loss.item()));
  const std::vector<float> grad = x.grad().to_vector<float>();
  CHECK(std::vector<float>(grad.begin() + 3, grad.end()) == std::vector<float>{0, 0, 0});

  Tensor all = float_tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  all.requires_grad_();
  ops::cross_entropy(all, int_tensor({-100, -100})).backward();
  CHECK(all.grad().to_vector<float>() == std::vector<float>(6, 0.0f));
}

TEST_CASE("cross_entropy: no samples") {
  const Tensor x = empty({0, 3});
  const Tensor targets = empty({0}, DType::Int64);
  CHECK(std::isnan(ops::cross_entropy(x, targets).item()));
  CHECK(ops::cross_entropy(x, targets, {.reduction = Reduction::Sum}).item() == 0.0);
  CHECK(ops::cross_entropy(x, targets, {.reduction = Reduction::None}).numel() == 0);
}

TEST_CASE("cross_entropy: huge and infinite logits") {
  // exp(30000) overflows every type; the loss does not.
  const Tensor huge = float_tensor({30000, -30000, 0, 0}, {2, 2});
  CHECK(ops::cross_entropy(huge, int_tensor({1, 0}), {.reduction = Reduction::Sum}).item() ==
        doctest::Approx(60000 + std::log(2.0)).epsilon(1e-6));
  const float inf = std::numeric_limits<float>::infinity();
  // A class ruled out by minus infinity costs nothing unless it is the target.
  const Tensor masked = float_tensor({0, -inf, 0}, {1, 3});
  CHECK(ops::cross_entropy(masked, int_tensor({0})).item() ==
        doctest::Approx(std::log(2.0)).epsilon(1e-6));
  CHECK(ops::cross_entropy(masked, int_tensor({1})).item() == inf);
  for (const float bad : {inf, static_cast<float>(NAN)}) {
    for (const int64_t classes : {3, 8, 19}) {
      std::vector<float> values(static_cast<size_t>(classes), 0.0f);
      values[static_cast<size_t>(classes) - 1] = bad;
      CHECK(std::isnan(
          ops::cross_entropy(float_tensor(values, {1, classes}), int_tensor({0})).item()));
    }
  }
}

TEST_CASE("cross_entropy: the gradient is scaled, added and repeated exactly") {
  Tensor x = random_tensor({6, 9}, DType::Float32, 31, -2.0, 2.0);
  x.requires_grad_();
  const Tensor targets = int_tensor({0, 1, 2, 3, 4, 5});
  const auto grad_of = [&](auto&& run) {
    autograd::zero_grad(x);
    run();
    return x.grad().to_vector<float>();
  };
  const auto loss = [&] { return ops::cross_entropy(x, targets); };
  const auto once = grad_of([&] { loss().backward(); });
  std::vector<float> doubled = once;
  for (float& value : doubled) value *= 2.0f;
  CHECK(grad_of([&] { ops::mul(loss(), 2.0).backward(); }) == doubled);
  CHECK(grad_of([&] {
          loss().backward();
          loss().backward();
        }) == doubled);
  CHECK(grad_of([&] { ops::add(loss(), loss()).backward(); }) == doubled);
  CHECK(grad_of([&] {
          const Tensor kept = loss();
          autograd::backward(kept, Tensor(), {.retain_graph = true});
          autograd::backward(kept, Tensor(), {});
        }) == doubled);
  const Tensor recorded = loss();
  NoGradGuard guard;
  CHECK(loss().item() == recorded.item());
}

TEST_CASE("cross_entropy: a loss scale rescues half gradients that would underflow") {
  // Before scaling each gradient is +-2^-31, far below half's smallest number, 2^-24.
  Tensor x = zeros({1, 2}, DType::Float16);
  x.requires_grad_();
  const CrossEntropyOptions options{.weight = full({2}, 0x1p-30), .reduction = Reduction::Sum};
  ops::mul(ops::cross_entropy(x, int_tensor({0}), options), 0x1p20).backward();
  const std::vector<Half> grad = x.grad().to_vector<Half>();
  CHECK(static_cast<float>(grad[0]) == -0x1p-11f);
  CHECK(static_cast<float>(grad[1]) == 0x1p-11f);
}

TEST_CASE("cross_entropy: errors say what is wrong") {
  const Tensor x = zeros({3, 4});
  const auto run = [&](const Tensor& logits, const Tensor& targets,
                       const CrossEntropyOptions& options = {}) {
    return [=] { ops::cross_entropy(logits, targets, options); };
  };
  check_error(run(x, int_tensor({0, 7, 1})), {"cross_entropy", "target 7", "sample 1", "0 to 3"});
  check_error(run(x, int_tensor({0, 1, -1})), {"target -1", "sample 2", "-100"});
  CHECK(error_of(run(x, int_tensor({0, 1, -1}), {.ignore_index = -1})).empty());
  try {
    run(x, int_tensor({4, 0, 0}))();
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::BadData);
  }
  check_error(run(x, int_tensor({0, 1})), {"[3, 4]", "[3]", "[2]"});
  check_error(run(x, zeros({3})), {"Float32", "expected Int64"});
  check_error(run(zeros({3}), int_tensor({0, 1, 2})), {"[3]", "[N, C]"});
  check_error(run(zeros({3, 4}, DType::Int64), int_tensor({0, 1, 2})), {"Int64", "floating"});
  check_error(run(x, int_tensor({0, 1, 2}), {.label_smoothing = 1.5}), {"label_smoothing", "1.5"});
  check_error(run(x, int_tensor({0, 1, 2}), {.weight = zeros({3})}), {"[3]", "[4]"});
}
