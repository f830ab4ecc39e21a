// Module: names and their order, shared parameters, state, modes, moves.
#include "core/nn/module.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd.h"
#include "core/ops.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Adds its weight; counts calls in a buffer.
class Leaf : public nn::Module {
 public:
  explicit Leaf(float value) {
    count = register_buffer("count", zeros({1}, DType::Int64));
    mean = register_buffer("mean", zeros({2}));
    weight = register_parameter("weight", full({2}, static_cast<double>(value)));
  }
  Tensor forward(const Tensor& input) override { return ops::add(input, weight); }

  Tensor weight;
  Tensor count;
  Tensor mean;
};

/// Registers a child before its own parameter: own ones are listed first nevertheless.
class Tree : public nn::Module {
 public:
  Tree() {
    register_module("first", first);
    register_module("second", second);
    scale = register_parameter("scale", ones({2}));
  }
  Tensor forward(const Tensor& input) override { return (*second)((*first)(input)); }

  std::shared_ptr<Leaf> first = std::make_shared<Leaf>(1.0f);
  std::shared_ptr<Leaf> second = std::make_shared<Leaf>(2.0f);
  Tensor scale;
};

std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& list) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : list) names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("names follow the order of registration, a module's own before its children's") {
  const Tree tree;
  CHECK(names_of(tree.named_parameters()) == Names{"scale", "first.weight", "second.weight"});
  CHECK(names_of(tree.named_buffers()) ==
        Names{"first.count", "first.mean", "second.count", "second.mean"});
  CHECK(names_of(tree.state_dict()) == Names{"scale", "first.weight", "first.count", "first.mean",
                                             "second.weight", "second.count", "second.mean"});
  CHECK(tree.parameters().size() == 3);
  for (const Tensor& parameter : tree.parameters()) {
    CHECK(parameter.is_leaf());
    CHECK(parameter.requires_grad());
  }
  CHECK_FALSE(tree.named_buffers()[1].second.requires_grad());
}

TEST_CASE("a shared module is one set of parameters, under every name in the state") {
  class Twice : public nn::Module {
   public:
    Twice() {
      const auto shared = std::make_shared<Leaf>(1.0f);
      register_module("a", shared);
      register_module("b", shared);
    }
    Tensor forward(const Tensor& input) override { return input; }
  };
  Twice module;
  CHECK(names_of(module.named_parameters()) == Names{"a.weight"});
  CHECK(names_of(module.named_buffers()) == Names{"a.count", "a.mean"});
  CHECK(module.state_dict().size() == 6);
}

TEST_CASE("load_state_dict copies, converts dtypes, and lists everything that does not fit") {
  Tree source;
  Tree target;
  NoGradGuard guard;
  source.first->weight.fill_(7);
  source.second->count.fill_(3);
  target.load_state_dict(source.state_dict());
  CHECK(target.first->weight.to_vector<float>() == std::vector<float>{7, 7});
  CHECK(target.second->count.to_vector<int64_t>() == std::vector<int64_t>{3});
  source.first->weight.fill_(8);
  CHECK(target.first->weight.to_vector<float>() == std::vector<float>{7, 7});

  auto state = source.state_dict();
  state[0].second = full({2}, 5.0, DType::Float64);
  target.load_state_dict(state);
  CHECK(target.scale.to_vector<float>() == std::vector<float>{5, 5});

  state[1].first = "third.weight";
  state[2].second = zeros({4}, DType::Int64);
  state[0].second = full({2}, 6.0);
  check_error([&] { target.load_state_dict(state); },
              {"missing first.weight [2]", "first.count is [4], expected [1]",
               "unexpected third.weight [2]"});
  CHECK(target.scale.to_vector<float>() == std::vector<float>{5, 5});
}

TEST_CASE("train and eval reach every module") {
  Tree tree;
  CHECK(tree.is_training());
  CHECK(tree.second->is_training());
  tree.eval();
  CHECK_FALSE(tree.is_training());
  CHECK_FALSE(tree.second->is_training());
  tree.train();
  CHECK(tree.first->is_training());
}

TEST_CASE("to(dtype) converts floating tensors under their handles and drops gradients") {
  Tree tree;
  const Tensor handle = tree.first->weight;
  autograd::set_grad(handle, ones({2}));
  tree.to(DType::Float64);
  CHECK(handle.dtype() == DType::Float64);
  CHECK(handle.to_vector<double>() == std::vector<double>{1, 1});
  CHECK_FALSE(handle.grad().defined());
  CHECK(handle.requires_grad());
  CHECK(tree.first->mean.dtype() == DType::Float64);
  CHECK(tree.first->count.dtype() == DType::Int64);
  // To where it is already: nothing happens, gradients stay.
  autograd::set_grad(handle, ones({2}, DType::Float64));
  tree.to(DType::Float64);
  tree.to(kCPU);
  CHECK(handle.grad().defined());
  check_error([&] { tree.to(DType::Int64); }, {"Module::to", "Int64"});
}

TEST_CASE("zero_grad forgets every gradient, frozen parameters included") {
  Tree tree;
  for (const Tensor& parameter : tree.parameters()) autograd::set_grad(parameter, ones({2}));
  tree.scale.requires_grad_(false);
  tree.zero_grad();
  CHECK_FALSE(tree.first->weight.grad().defined());
  CHECK_FALSE(tree.second->weight.grad().defined());
}

TEST_CASE("a moved module keeps its parameters") {
  Leaf leaf(3.0f);
  const Tensor handle = leaf.weight;
  Leaf moved = std::move(leaf);
  CHECK(moved.parameters().at(0).is_same(handle));
  CHECK(moved(zeros({2})).to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("names must be new, non-empty and without dots") {
  class Bad : public nn::Module {
   public:
    explicit Bad(std::string name) {
      register_buffer("taken", zeros({1}));
      register_parameter(std::move(name), zeros({1}));
    }
    Tensor forward(const Tensor& input) override { return input; }
  };
  check_error([] { Bad("taken"); }, {"register_parameter", "\"taken\""});
  check_error([] { Bad("a.b"); }, {"\"a.b\"", "dots"});
  check_error([] { Bad(""); }, {"non-empty"});
}
