// clip_grad_norm_: PyTorch's bits, the nested norm, and what is not finite.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/autograd.h"
#include "core/optim/optimizer.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor with_grad(const std::vector<float>& grad, DType dtype = DType::Float32) {
  const Shape shape{static_cast<int64_t>(grad.size())};
  Tensor parameter = zeros(shape, dtype);
  parameter.requires_grad_();
  autograd::set_grad(parameter, Tensor::from_values(grad, shape).to(dtype));
  return parameter;
}

double clip(const std::vector<Tensor>& parameters, double max_norm,
            bool error_if_nonfinite = false) {
  return optim::clip_grad_norm_(optim::unnamed(parameters), max_norm, error_if_nonfinite);
}

}  // namespace

TEST_CASE("clip_grad_norm_ gives PyTorch's values") {
  const Tensor p = with_grad({3, 4});
  CHECK(clip({p}, 1.0) == 5.0);
  const std::vector<float> grad = p.grad().to_vector<float>();
  CHECK(std::bit_cast<uint32_t>(grad[0]) == 0x3f199998u);
  CHECK(std::bit_cast<uint32_t>(grad[1]) == 0x3f4cccca);

  const Tensor infinite = with_grad({kInf, 1});
  CHECK(clip({infinite}, 1.0) == static_cast<double>(kInf));
  CHECK(std::isnan(infinite.grad().to_vector<float>()[0]));
  CHECK(infinite.grad().to_vector<float>()[1] == 0.0f);

  const Tensor nan = with_grad({NAN, 1});
  CHECK(std::isnan(clip({nan}, 1.0)));
  CHECK(std::isnan(nan.grad().to_vector<float>()[0]));
  CHECK(std::isnan(nan.grad().to_vector<float>()[1]));
}

TEST_CASE("clip_grad_norm_ takes the norm over all parameters and skips those without gradient") {
  const Tensor a = with_grad({1, 2});
  const Tensor b = with_grad({2, 4});
  const Tensor none = zeros({3}).requires_grad_();
  CHECK(clip({a, none, b}, 100.0) == 5.0);
  // A norm below the limit multiplies by exactly one.
  CHECK(a.grad().to_vector<float>() == std::vector<float>{1, 2});
  CHECK_FALSE(none.grad().defined());
  CHECK(clip({none}, 1.0) == 0.0);
  CHECK(clip({a, b}, 0.0) == 5.0);
  CHECK(b.grad().to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("clip_grad_norm_ of each dtype, long and large gradients") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor p = with_grad(std::vector<float>(1000, 0.5f), dtype);
    const double norm = std::sqrt(1000 * 0.25);
    CHECK(std::abs(clip({p}, 1.0) - norm) <= norm * 0x1p-24);
    const Matrix expected = Matrix::Constant(1, 1000, 0.5 / (norm + 1e-6));
    check_close(p.grad(), expected, 4.0);
  }
  // The squares overflow fp32; the norm does not.
  const Tensor large = with_grad({3e25f, 4e25f});
  CHECK(std::abs(clip({large}, 1.0) - 5e25) <= 5e25 * 0x1p-23);
}

TEST_CASE("clip_grad_norm_ bumps the version and can refuse what is not finite") {
  const Tensor p = with_grad({3, 4});
  const uint64_t version = p.grad().storage().version();
  clip({p}, 1.0);
  CHECK(p.grad().storage().version() == version + 1);

  const Tensor infinite = with_grad({kInf, 1});
  check_error([&] { clip({infinite}, 1.0, true); }, {"clip_grad_norm_", "inf"});
  CHECK(infinite.grad().to_vector<float>()[1] == 1.0f);
  check_error([&] { clip({p}, -1.0); }, {"max_norm is -1"});
}
