// view: the same memory under another shape, for every dtype, and the way back of its gradient.
#include <doctest/doctest.h>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("view: gradcheck") {
  const Tensor input = random_tensor({4, 6}, DType::Float64, 1);
  gradcheck([](const auto& in) { return in[0].view({2, 12}); }, {input});
  gradcheck([](const auto& in) { return ops::gelu(in[0].view({-1})).view({3, 8}); }, {input});
  gradcheck([](const auto& in) { return in[0].view({24}) + in[0].view({24}); }, {input});
}

TEST_CASE("view: shares its elements, for every dtype") {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                            DType::Int64, DType::UInt8}) {
    const Tensor base = zeros({4, 6}, dtype);
    Tensor view = base.slice(1, 3).view({3, 4});
    CHECK(view.shape() == Shape({3, 4}));
    CHECK(view.storage() == base.storage());
    CHECK(view.storage_offset() == 6);
    view.fill_(3.0);
    CHECK(to_matrix(base).sum() == 36.0);
    CHECK(to_matrix(base).row(0).sum() == 0.0);
  }
}

TEST_CASE("view: the extent -1 is what is left") {
  const Tensor base = zeros({4, 6});
  CHECK(base.view({-1, 8}).shape() == Shape({3, 8}));
  CHECK(base.view({2, -1, 3}).shape() == Shape({2, 4, 3}));
  CHECK(base.view({-1}).shape() == Shape({24}));
  CHECK(zeros({0, 3}).view({-1, 3}).shape() == Shape({0, 3}));
  CHECK(zeros({1}).view({}).shape() == Shape{});
}

TEST_CASE("view: the gradient comes back in the input's shape, written and added") {
  for (const DType dtype : kFloatingTypes) {
    Tensor input = random_tensor({2, 6}, dtype, 2).requires_grad_();
    const Tensor grad = random_tensor({3, 4}, dtype, 3);
    for (int times = 1; times <= 2; ++times) {
      const Tensor view = input.view({3, 4});
      CHECK(!view.is_leaf());
      view.backward(grad);
      CHECK(input.grad().shape() == Shape({2, 6}));
      CHECK(to_matrix(input.grad().view({3, 4})) == times * to_matrix(grad));
    }
  }
}

TEST_CASE("view: errors") {
  const Tensor base = zeros({4, 6});
  check_error([&] { base.view({5, 5}); }, {"view: ", "[4, 6]", "24", "[5, 5]", "25"});
  check_error([&] { base.view({-1, 7}); }, {"view: ", "[4, 6]", "7"});
  check_error([&] { base.view({-1, -1}); }, {"view: ", "only one extent may be -1"});
  check_error([&] { base.view({-2, -12}); }, {"-2"});
  check_error([&] { ops::view(Tensor(), {1}); }, {"view", "undefined"});
  check_error([&] { base.view({1, 1, 1, 1, 1, 4, 6}); }, {"view: 7 dimensions"});
}
