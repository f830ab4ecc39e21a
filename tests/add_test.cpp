// add: one rounding, and a gradient that is handed on to both inputs.
#include <doctest/doctest.h>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("add: gradcheck, also of a tensor added to itself") {
  const Tensor a = random_tensor({3, 5}, DType::Float64, 1);
  const Tensor b = random_tensor({3, 5}, DType::Float64, 2);
  gradcheck([](const auto& in) { return in[0] + in[1]; }, {a, b});
  gradcheck([](const auto& in) { return in[0] + in[0]; }, {a});
  gradcheck([](const auto& in) { return (in[0] + in[1]) + (in[1] + in[0]); }, {a, b});
}

TEST_CASE("add: the sum is rounded once, the gradients are exact") {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 31}, Shape{600}}) {
      Tensor a = random_tensor(shape, dtype, 3).requires_grad_();
      Tensor b = random_tensor(shape, dtype, 4, -0.01, 0.01).requires_grad_();
      const Tensor sum = a + b;
      check_close(sum, to_matrix(a) + to_matrix(b), 0.5);
      const Tensor grad = random_tensor(shape, dtype, 5);
      sum.backward(grad);
      CHECK(to_matrix(a.grad()) == to_matrix(grad));
      CHECK(to_matrix(b.grad()) == to_matrix(grad));
      (a + b).backward(grad);
      CHECK(to_matrix(a.grad()) == 2 * to_matrix(grad));
      CHECK(to_matrix(b.grad()) == 2 * to_matrix(grad));
    }
  }
}

TEST_CASE("add: the inputs' gradients do not share memory with each other or with the caller's") {
  Tensor a = zeros({4}).requires_grad_();
  Tensor b = zeros({4}).requires_grad_();
  const Tensor grad = ones({4});
  (a + b).backward(grad);
  CHECK(a.grad().raw_data() != b.grad().raw_data());
  CHECK(a.grad().raw_data() != grad.raw_data());
  // A branch that changes its gradient in place must not change the other one's.
  Tensor c = full({4}, -1.0).requires_grad_();
  Tensor identity = Tensor::from_values(std::vector<float>{1}, {1, 1});
  const Tensor x = ops::view(c, {4, 1});
  (ops::linear_relu(x, identity, Tensor()) + x * 1.0).backward(ones({4, 1}));
  CHECK(c.grad().to_vector<float>() == std::vector<float>{1, 1, 1, 1});
}

TEST_CASE("add: errors") {
  check_error([] { zeros({2, 3}) + zeros({3, 2}); }, {"add: ", "[2, 3]", "[3, 2]", "equal shapes"});
  check_error([] { zeros({2}) + zeros({2}, DType::Float64); },
              {"add: b is Float64, a is Float32", "to()"});
  check_error([] { zeros({2}, DType::Int64) + zeros({2}, DType::Int64); }, {"add", "Int64"});
  check_error([] { zeros({2}) + cuda_tensor({2}, DType::Float32); }, {"add: b is on cuda:0"});
  check_error([] { cuda_tensor({2}, DType::Float32) + zeros({2}); }, {"add: ", "cuda:0"});
  check_error([] { zeros({2}) + Tensor(); }, {"add: b is undefined"});
}
