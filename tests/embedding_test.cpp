// embedding: exact copies forward, additions in sample order backward.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

Tensor indices_of(const std::vector<int64_t>& values, const Shape& shape) {
  return Tensor::from_values(values, shape);
}

}  // namespace

TEST_CASE("embedding copies rows, for indices of any shape") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor weight = random_tensor({5, 3}, dtype, 1);
    const std::vector<int64_t> picked = {4, 0, 0, 2, 4, 1};
    const Matrix table = to_matrix(weight);
    for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{1, 6, 1}}) {
      const Tensor output = ops::embedding(indices_of(picked, shape), weight);
      CHECK(output.dim() == shape.dim() + 1);
      CHECK(output.size(-1) == 3);
      const Matrix rows = to_matrix(output);
      for (size_t i = 0; i < picked.size(); ++i) {
        CHECK(rows.row(static_cast<Eigen::Index>(i)) == table.row(picked[i]));
      }
    }
  }
  const Tensor scalar =
      ops::embedding(indices_of({2}, {}), random_tensor({5, 3}, DType::Float32, 1));
  CHECK(scalar.shape() == Shape{3});
}

TEST_CASE("embedding: repeated indices add up, other rows get zero") {
  // Quarters up to 6: every sum is exact in every dtype.
  for (const DType dtype : kFloatingTypes) {
    Tensor weight = zeros({4, 2}, dtype);
    weight.requires_grad_();
    const Tensor indices = indices_of({1, 3, 1, 1}, {4});
    const Tensor grad_output =
        Tensor::from_values(std::vector<double>{1, 2, .25, .5, 3, -4, .75, 1}, {4, 2}).to(dtype);
    ops::embedding(indices, weight).backward(grad_output);
    Matrix expected(4, 2);
    expected << 0, 0, 4.75, -1, 0, 0, .25, .5;
    CHECK(to_matrix(weight.grad()) == expected);
    ops::embedding(indices, weight).backward(grad_output);
    CHECK(to_matrix(weight.grad()) == 2 * expected);
  }
}

TEST_CASE("embedding: a row that is hit often is summed in fp32 and rounded once") {
  // In half, 2048 + 1 is 2048: adding one by one would stop there.
  Tensor weight = zeros({1, 1}, DType::Float16);
  weight.requires_grad_();
  ops::embedding(zeros({4096}, DType::Int64), weight).backward(ones({4096, 1}, DType::Float16));
  CHECK(static_cast<float>(weight.grad().to_vector<Half>()[0]) == 4096.0f);
}

TEST_CASE("embedding: gradcheck") {
  const Tensor indices = indices_of({2, 0, 2, 1, 2}, {5});
  gradcheck([&](const std::vector<Tensor>& in) { return ops::embedding(indices, in[0]); },
            {random_tensor({4, 3}, DType::Float64, 2)});
}

TEST_CASE("embedding: no indices, and errors") {
  Tensor weight = random_tensor({4, 3}, DType::Float32, 3);
  weight.requires_grad_();
  const Tensor output = ops::embedding(empty({0}, DType::Int64), weight);
  CHECK(output.shape() == Shape{0, 3});
  ops::sum(output).backward();
  CHECK(weight.grad().to_vector<float>() == std::vector<float>(12, 0.0f));

  check_error(
      [&] {
        ops::embedding(indices_of({1, 4}, {2}), weight);
      },
      {"embedding", "index 4", "position 1", "4 rows"});
  check_error([&] { ops::embedding(indices_of({-1}, {1}), weight); }, {"index -1", "position 0"});
  check_error([&] { ops::embedding(zeros({2}), weight); }, {"Float32", "expected Int64"});
  check_error([&] { ops::embedding(indices_of({0}, {1}), zeros({4})); }, {"[4]", "[V, D]"});
  check_error([&] { ops::embedding(indices_of({0}, {1, 1, 1, 1, 1, 1}), weight); }, {"at most 5"});
}
