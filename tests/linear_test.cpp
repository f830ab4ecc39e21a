// linear and linear_relu: gradcheck, the closed form in Eigen for every dtype and odd shapes, and
// that fusing changes no bit.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/gradcheck.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Sizes {
  int64_t n, in, out;
};

constexpr Sizes kSizes[] = {{0, 3, 2},  {1, 1, 1},   {1, 5, 3},    {7, 1, 5},
                            {5, 13, 1}, {33, 17, 9}, {64, 31, 40}, {3, 0, 4}};

struct Layer {
  Layer(const Sizes& sizes, DType dtype, unsigned seed)
      : input(random_tensor({sizes.n, sizes.in}, dtype, seed)),
        weight(random_tensor({sizes.out, sizes.in}, dtype, seed + 1)),
        bias(random_tensor({sizes.out}, dtype, seed + 2)),
        grad(random_tensor({sizes.n, sizes.out}, dtype, seed + 3)) {
    for (Tensor* leaf : {&input, &weight, &bias}) leaf->requires_grad_();
  }
  Tensor input, weight, bias, grad;
};

Matrix zeros_of(const Matrix& like) { return Matrix::Zero(like.rows(), like.cols()); }

/// Forward and the three gradients against their closed forms. `times` backward passes add up.
void check_closed_form(const Sizes& sizes, DType dtype, unsigned seed, int times) {
  CAPTURE(sizes.n);
  CAPTURE(sizes.in);
  CAPTURE(sizes.out);
  Layer layer(sizes, dtype, seed);
  const Matrix x = to_matrix(layer.input);
  const Matrix w = to_matrix(layer.weight);
  const Matrix b = to_matrix(layer.bias);
  const Matrix g = to_matrix(layer.grad);
  const Matrix ones = Matrix::Ones(sizes.n, 1);
  const auto n = static_cast<double>(sizes.n);
  const auto in = static_cast<double>(sizes.in);
  const auto out = static_cast<double>(sizes.out);
  for (int i = 0; i < times; ++i) {
    const Tensor output = ops::linear(layer.input, layer.weight, layer.bias);
    CHECK(output.shape() == Shape({sizes.n, sizes.out}));
    CHECK(output.dtype() == dtype);
    check_close(output, x * w.transpose() + ones * b,
                x.cwiseAbs() * w.cwiseAbs().transpose() + ones * b.cwiseAbs(), in + 1);
    output.backward(layer.grad);
  }
  // The last sum of two passes is one more rounding, also to the type itself.
  check_close(layer.bias.grad(), times * (ones.transpose() * g),
              times * (ones.transpose() * g.cwiseAbs()), n + 1);
  check_close(layer.weight.grad(), times * (g.transpose() * x),
              times * (g.cwiseAbs().transpose() * x.cwiseAbs()), n + 1);
  check_close(layer.input.grad(), times * (g * w), times * (g.cwiseAbs() * w.cwiseAbs()), out + 1);
}

}  // namespace

TEST_CASE("linear: gradcheck on every input") {
  for (const Sizes& sizes : {Sizes{3, 4, 2}, {1, 1, 1}, {5, 9, 7}}) {
    const std::vector<Tensor> inputs = {
        random_tensor({sizes.n, sizes.in}, DType::Float64, 1),
        random_tensor({sizes.out, sizes.in}, DType::Float64, 2),
        random_tensor({sizes.out}, DType::Float64, 3),
    };
    gradcheck([](const auto& in) { return ops::linear(in[0], in[1], in[2]); }, inputs);
    gradcheck([](const auto& in) { return ops::linear(in[0], in[1]); }, {inputs[0], inputs[1]});
  }
}

TEST_CASE("linear: a vector as input, and more leading dimensions") {
  const Tensor weight = random_tensor({3, 4}, DType::Float64, 2);
  const Tensor bias = random_tensor({3}, DType::Float64, 3);
  const auto f = [](const auto& in) { return ops::linear(in[0], in[1], in[2]); };
  gradcheck(f, {random_tensor({4}, DType::Float64, 1), weight, bias});
  gradcheck(f, {random_tensor({2, 3, 4}, DType::Float64, 1), weight, bias});
  CHECK(ops::linear(zeros({4}, DType::Float64), weight, bias).shape() == Shape({3}));
  CHECK(ops::linear(zeros({2, 5, 4}, DType::Float64), weight, bias).shape() == Shape({2, 5, 3}));
}

TEST_CASE("linear: forward and gradients equal the closed form") {
  unsigned seed = 10;
  for (const DType dtype : kFloatingTypes) {
    for (const Sizes& sizes : kSizes) {
      check_closed_form(sizes, dtype, seed, 1);
      check_closed_form(sizes, dtype, seed, 2);
      seed += 10;
    }
  }
}

TEST_CASE("linear: an undefined gradient is overwritten, whatever its memory holds") {
  for (const DType dtype : kFloatingTypes) {
    for (const int64_t n : {0, 5}) {
      Layer layer({n, 6, 3}, dtype, 4);
      for (const Tensor& leaf : {layer.input, layer.weight, layer.bias}) {
        autograd::set_grad_memory(leaf, full(leaf.shape(), NAN, dtype));
      }
      ops::linear(layer.input, layer.weight, layer.bias).backward(layer.grad);
      for (const Tensor& leaf : {layer.input, layer.weight, layer.bias}) {
        const Matrix grad = to_matrix(leaf.grad());
        CHECK(!grad.hasNaN());
        if (n == 0) CHECK(grad == zeros_of(grad));
      }
    }
  }
}

TEST_CASE("linear_relu: the bits of linear and relu one after the other") {
  for (const DType dtype : kFloatingTypes) {
    for (const Sizes& sizes : kSizes) {
      for (const bool with_bias : {true, false}) {
        Layer fused(sizes, dtype, 20);
        Layer split(sizes, dtype, 20);
        const Tensor no_bias;
        const Tensor a =
            ops::linear_relu(fused.input, fused.weight, with_bias ? fused.bias : no_bias);
        const Tensor b =
            ops::relu(ops::linear(split.input, split.weight, with_bias ? split.bias : no_bias));
        CHECK(to_matrix(a) == to_matrix(b));
        a.backward(fused.grad);
        b.backward(split.grad);
        CHECK(to_matrix(fused.input.grad()) == to_matrix(split.input.grad()));
        CHECK(to_matrix(fused.weight.grad()) == to_matrix(split.weight.grad()));
        if (with_bias) CHECK(to_matrix(fused.bias.grad()) == to_matrix(split.bias.grad()));
      }
    }
  }
}

TEST_CASE("linear_relu: gradcheck, and the caller's gradient is left alone") {
  Layer layer({5, 4, 6}, DType::Float64, 31);
  const Matrix before = to_matrix(layer.input) * to_matrix(layer.weight).transpose() +
                        Matrix::Ones(5, 1) * to_matrix(layer.bias);
  REQUIRE(before.cwiseAbs().minCoeff() > 1e-4);  // no kink within a step of the check
  gradcheck([](const auto& in) { return ops::linear_relu(in[0], in[1], in[2]); },
            {layer.input.detach(), layer.weight.detach(), layer.bias.detach()});

  const Matrix grad = to_matrix(layer.grad);
  ops::linear_relu(layer.input, layer.weight, layer.bias).backward(layer.grad);
  CHECK(to_matrix(layer.grad) == grad);
}

TEST_CASE("linear: only what needs a gradient gets one") {
  Layer layer({4, 3, 2}, DType::Float32, 41);
  layer.input.requires_grad_(false);
  layer.bias.requires_grad_(false);
  const Tensor output = ops::linear(layer.input, layer.weight, layer.bias);
  // The input's gradient is not asked for, so the weight is not kept: it may change.
  {
    NoGradGuard guard;
    layer.weight.fill_(7.0);
  }
  output.backward(layer.grad);
  CHECK(layer.weight.grad().defined());
  CHECK(!layer.input.grad().defined());
  CHECK(!layer.bias.grad().defined());
  layer.weight.requires_grad_(false);
  CHECK(!ops::linear(layer.input, layer.weight, layer.bias).requires_grad());
}

TEST_CASE("linear: an input or weight modified before backward is found") {
  Layer layer({4, 3, 2}, DType::Float32, 51);
  for (Tensor* modified : {&layer.input, &layer.weight}) {
    const Tensor output = ops::linear(layer.input, layer.weight, layer.bias);
    {
      NoGradGuard guard;
      modified->fill_(1.0);
    }
    check_error([&] { output.backward(layer.grad); }, {"linear", "modified in place"});
  }
}

TEST_CASE("linear: errors name the operation, what was given and what was expected") {
  const Tensor input = zeros({32, 999});
  const Tensor weight = zeros({10, 1000});
  check_error([&] { ops::linear(input, weight); },
              {"linear: ", "[32, 999]", "[10, 1000]", "expected an input of [N, 1000]"});
  check_error(
      [&] {
        ops::linear_relu(zeros({2, 3}), zeros({4, 3}), zeros({5}));
      },
      {"linear_relu: bias has shape [5]", "expected a bias of [4]"});
  check_error([&] { ops::linear(zeros({3}), zeros({3})); },
              {"linear: weight has shape [3]", "[out_features, in_features]"});
  check_error([&] { ops::linear(zeros({}), zeros({4, 3})); }, {"linear: input has shape []"});
  check_error(
      [&] {
        ops::linear(zeros({2, 3}), zeros({4, 3}, DType::Float64));
      },
      {"linear: weight is Float64, input is Float32"});
  check_error(
      [&] {
        ops::linear(zeros({2, 3}), zeros({4, 3}), zeros({4}, DType::Float16));
      },
      {"linear: bias is Float16, input is Float32"});
  check_error(
      [&] {
        ops::linear(zeros({2, 3}, DType::Int64), zeros({4, 3}, DType::Int64));
      },
      {"linear: ", "Int64", "expected a floating dtype"});
  check_error(
      [&] {
        ops::linear(cuda_tensor({2, 3}, DType::Float32), zeros({4, 3}));
      },
      {"linear: ", "cuda:0"});
  check_error(
      [&] {
        ops::linear(zeros({2, 3}), cuda_tensor({4, 3}, DType::Float32));
      },
      {"linear: weight is on cuda:0, input is on cpu"});
  check_error([&] { ops::linear(Tensor(), weight); }, {"linear: ", "undefined"});
  check_error([&] { ops::linear(input, Tensor()); }, {"linear: weight is undefined"});
}
