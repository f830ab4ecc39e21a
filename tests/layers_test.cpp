// The layers: forward against the operations, names, modes, the order of construction. Their
// initial values are tested in init_test.cpp.
#include "core/nn/layers.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/autograd.h"
#include "core/nn/init.h"
#include "core/random.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Bits = std::vector<uint32_t>;

Bits bits_of(const Tensor& tensor) {
  Bits bits;
  for (const float value : tensor.to_vector<float>())
    bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && bits_of(a) == bits_of(b);
}

}  // namespace

TEST_CASE("fans and gains of the initial values") {
  // The slope sqrt(5) squared is 5.000000000000001 in double, and stays so.
  CHECK(nn::init::leaky_relu_gain(std::sqrt(5.0)) == std::sqrt(2.0 / (1.0 + 5.000000000000001)));
  const Tensor conv = empty({8, 3, 5, 2});
  CHECK(nn::init::fan_in(conv) == 30);
  CHECK(nn::init::fan_out(conv) == 80);
  check_error([] { nn::init::fan_in(empty({3})); }, {"init", "[3]", "fan"});
}

TEST_CASE("Linear without bias, and without inputs") {
  nn::Linear plain(3, 2, {.bias = false});
  CHECK_FALSE(plain.bias.defined());
  CHECK(plain.parameters().size() == 1);
  const Tensor x = random_tensor({4, 3}, DType::Float32, 1);
  CHECK(bitwise_equal(plain(x), ops::linear(x, plain.weight)));
  CHECK(bitwise_equal(plain.forward_relu(x), ops::relu(plain(x))));
  nn::Linear empty_inputs(0, 2);
  CHECK(empty_inputs(empty({3, 0})).to_vector<float>() == std::vector<float>(6, 0.0f));
}

TEST_CASE("each layer computes its operation") {
  const Tensor x = random_tensor({4, 6}, DType::Float32, 2, -2.0, 2.0);
  nn::Linear linear(6, 5);
  CHECK(bitwise_equal(linear(x), ops::linear(x, linear.weight, linear.bias)));
  nn::ReLU relu;
  CHECK(bitwise_equal(relu(x), ops::relu(x)));
  nn::GELU gelu;
  CHECK(bitwise_equal(gelu(x), ops::gelu(x)));
  nn::LayerNorm norm(6, 1e-3);
  CHECK(norm.weight.to_vector<float>() == std::vector<float>(6, 1.0f));
  CHECK(norm.bias.to_vector<float>() == std::vector<float>(6, 0.0f));
  CHECK(bitwise_equal(norm(x), ops::layer_norm(x, norm.weight, norm.bias, 1e-3)));
  nn::Embedding embedding(7, 3);
  const Tensor indices = Tensor::from_values(std::vector<int64_t>{6, 0}, {2});
  CHECK(bitwise_equal(embedding(indices), ops::embedding(indices, embedding.weight)));
  nn::CrossEntropyLoss criterion({.reduction = ops::Reduction::Sum});
  const Tensor targets = Tensor::from_values(std::vector<int64_t>{0, 1, 2, 3}, {4});
  CHECK(criterion(x, targets).item() ==
        ops::cross_entropy(x, targets, {.reduction = ops::Reduction::Sum}).item());
}

TEST_CASE("Dropout works in training only") {
  nn::Dropout dropout(0.5);
  const Tensor x = ones({64});
  manual_seed(1);
  const Tensor dropped = dropout(x);
  manual_seed(1);
  CHECK(bitwise_equal(dropped, ops::dropout(x, 0.5, true)));
  dropout.eval();
  CHECK(dropout(x).is_same(x));
  check_error([] { nn::Dropout bad(1.5); }, {"Dropout", "1.5"});
}

TEST_CASE("Sequential: names, and Linear followed by ReLU has the same bits as one by one") {
  manual_seed(3);
  nn::Sequential model{nn::Linear(6, 5), nn::ReLU(), nn::Linear(5, 4),
                       nn::ReLU(),       nn::GELU(), nn::Linear(4, 2)};
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.named_parameters()) names.push_back(name);
  CHECK(names ==
        std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "5.weight", "5.bias"});
  CHECK(model.size() == 6);
  const auto p = model.parameters();
  const auto one_by_one = [&](const Tensor& x) {
    const Tensor a = ops::relu(ops::linear(x, p[0], p[1]));
    const Tensor b = ops::gelu(ops::relu(ops::linear(a, p[2], p[3])));
    return ops::linear(b, p[4], p[5]);
  };
  const Tensor x = random_tensor({7, 6}, DType::Float32, 4);
  CHECK(bitwise_equal(model(x), one_by_one(x)));

  const auto gradients = [&](const auto& forward) {
    for (const Tensor& parameter : p) autograd::zero_grad(parameter);
    ops::sum(forward(x)).backward();
    std::vector<Bits> result;
    for (const Tensor& parameter : p) result.push_back(bits_of(parameter.grad()));
    return result;
  };
  CHECK(gradients([&](const Tensor& input) { return model(input); }) == gradients(one_by_one));
  CHECK(nn::Sequential()(x).is_same(x));
}

TEST_CASE("Sequential constructs its layers from left to right") {
  manual_seed(0);
  const nn::Sequential model{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4)};
  manual_seed(0);
  const nn::Linear first(8, 16);
  const nn::Linear second(16, 4);
  const auto p = model.parameters();
  CHECK(bitwise_equal(p.at(0), first.weight));
  CHECK(bitwise_equal(p.at(3), second.bias));
  // Parentheses promise no order, so they are no way to write it.
  CHECK_FALSE(std::is_constructible_v<nn::Sequential, nn::Linear, nn::ReLU>);
  // One module twice: one set of parameters.
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  CHECK(nn::Sequential{shared, nn::ReLU(), shared}.parameters().size() == 2);
}

TEST_CASE("Sequential leaves a subclass of Linear its own forward") {
  class Doubled : public nn::Linear {
   public:
    using nn::Linear::Linear;
    Tensor forward(const Tensor& input) override { return ops::mul(Linear::forward(input), 2.0); }
  };
  nn::Sequential model;
  const auto doubled = std::make_shared<Doubled>(3, 2);
  model.add(doubled);
  model.add(std::make_shared<nn::ReLU>());
  const Tensor x = random_tensor({4, 3}, DType::Float32, 5);
  CHECK(bitwise_equal(model(x),
                      ops::relu(ops::mul(ops::linear(x, doubled->weight, doubled->bias), 2.0))));
}
