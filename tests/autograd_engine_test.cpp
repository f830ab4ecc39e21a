// The traversal: counted contributions, write or add, order of the nodes, second backwards, deep
// graphs, and a steady step that allocates nothing.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/autograd_node.h"
#include "core/base/sanitizer.h"
#include "core/ops.h"
#include "kernels/allocator.h"
#include "tests/reference.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}  // namespace

// Counts what the pools and caches do not serve.
[[gnu::noinline]] void* operator new(size_t nbytes) {
  ++g_allocations;
  if (void* block = std::malloc(nbytes == 0 ? 1 : nbytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Floats = std::vector<float>;

Tensor leaf_of(const Floats& values) {
  return Tensor::from_values(values, {static_cast<int64_t>(values.size())}).requires_grad_();
}

Floats grad_of(const Tensor& leaf) { return leaf.grad().to_vector<float>(); }

/// An identity of one or two inputs that writes down what its backward sees.
struct Probe {
  std::string* log = nullptr;
  char name = '?';
};

Tensor probe(const Tensor& a, const Tensor& b, std::string* log, char name) {
  Tensor output = a.clone();
  autograd::record("probe", output, {a, b}, Probe{log, name},
                   [](autograd::BackwardContext& context, const Probe& saved) {
                     *saved.log += saved.name;
                     for (const int input : {1, 0}) {
                       context.grad_input(input, [&](const Tensor& grad, bool accumulate) {
                         *saved.log += accumulate ? '+' : '=';
                         const Tensor& g = context.grad_output();
                         const Tensor total = accumulate ? ops::add(grad, g) : g;
                         Tensor(grad).copy_(total);
                       });
                     }
                   });
  return output;
}

}  // namespace

TEST_CASE("the first contribution is written, the others are added, at leaves and inside") {
  std::string log;
  const Tensor leaf = leaf_of({1, 2});
  const Tensor inner = probe(leaf, Tensor(), &log, 'a');
  const Tensor b = probe(inner, inner, &log, 'b');
  const Tensor c = probe(b, leaf, &log, 'c');
  c.backward(ones({2}));
  // c: the leaf is written, b is written; b: inner twice; a: the leaf's second contribution.
  CHECK(log == "c==b=+a+");
  CHECK(grad_of(leaf) == Floats{3, 3});
}

TEST_CASE("later nodes run first, each after all its contributions") {
  std::string log;
  const Tensor leaf = leaf_of({1});
  const Tensor a = probe(leaf, Tensor(), &log, 'a');
  const Tensor b = probe(a, Tensor(), &log, 'b');
  const Tensor c = probe(a, Tensor(), &log, 'c');
  const Tensor d = probe(c, b, &log, 'd');
  d.backward();
  CHECK(log == "d==c=b+a=");
  CHECK(grad_of(leaf) == Floats{2});
}

TEST_CASE("only what the root depends on runs, and only what needs a gradient gets one") {
  std::string log;
  const Tensor leaf = leaf_of({1});
  const Tensor constant = ones({1});
  const Tensor used = probe(leaf, constant, &log, 'u');
  const Tensor unused = probe(used, leaf, &log, 'x');
  used.backward();
  CHECK(log == "u=");
  CHECK(!constant.requires_grad());
}

TEST_CASE("a parameter used by two layers: contributions add up, one hook") {
  Tensor weight = Tensor::from_values(Floats{1, 2, 3, 4}, {2, 2}).requires_grad_();
  int hooks = 0;
  Floats at_hook;
  autograd::register_post_accumulate_grad_hook(weight, [&](const Tensor& leaf) {
    ++hooks;
    at_hook = grad_of(leaf);
  });
  const Tensor x = Tensor::from_values(Floats{1, -1}, {1, 2});
  const Tensor h = ops::linear(x, weight);  // [-1, -1]
  const Tensor y = ops::linear(h, weight);  // W (W x)
  y.backward(ones({1, 2}));
  // d/dW of 1' W h: rows of h'; and of (W' 1)' W x: (4, 6)' x'.
  const Floats expected = {-1 + 4, -1 - 4, -1 + 6, -1 - 6};
  CHECK(grad_of(weight) == expected);
  CHECK(at_hook == expected);
  CHECK(hooks == 1);
}

TEST_CASE("the gradient given to backward is the caller's: it is read, never changed or kept") {
  const Tensor leaf = leaf_of({-1, 2});
  Tensor gradient = ones({2});
  const Tensor y = ops::relu(leaf) + leaf;
  y.backward(gradient);
  CHECK(gradient.to_vector<float>() == Floats{1, 1});
  CHECK(grad_of(leaf) == Floats{1, 2});
  gradient.fill_(5.0);
  CHECK(grad_of(leaf) == Floats{1, 2});
}

TEST_CASE("a leaf as the root") {
  const Tensor leaf = leaf_of({3});
  leaf.backward();
  leaf.backward(full({1}, 2.0));
  CHECK(grad_of(leaf) == Floats{3});
}

TEST_CASE("a second backward is refused by name; with retain_graph it adds") {
  const Tensor leaf = leaf_of({1, 2});
  const Tensor shared = leaf * 2.0;
  const Tensor first = ops::sum(shared);
  const Tensor second = ops::sum(shared);
  autograd::backward(first, Tensor(), {.retain_graph = true});
  autograd::backward(first);
  CHECK(grad_of(leaf) == Floats{4, 4});
  check_error([&] { first.backward(); }, {"backward: sum", "already", "retain_graph"});
  // Part of this graph is gone: found before any gradient changes.
  check_error([&] { second.backward(); }, {"backward: mul", "already"});
  CHECK(grad_of(leaf) == Floats{4, 4});
}

TEST_CASE("a graph that is kept may be differentiated from another thread") {
  const Tensor leaf = leaf_of({1, 2});
  const Tensor inner = leaf * 2.0;
  const Tensor root = ops::sum(inner + inner);
  int hooks = 0;
  autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) { ++hooks; });
  for (int i = 0; i < 2; ++i) {  // the first backward of each of two threads
    std::thread([&] { autograd::backward(root, Tensor(), {.retain_graph = true}); }).join();
  }
  CHECK(grad_of(leaf) == Floats{8, 8});
  CHECK(hooks == 2);
}

TEST_CASE("a saved tensor that was modified in place is found, and the engine works on") {
  const Tensor leaf = leaf_of({1, -2});
  Tensor hidden = ops::relu(leaf);
  const Tensor root = ops::sum(hidden);
  {
    const NoGradGuard guard;
    hidden.fill_(0.5);
  }
  check_error([&] { root.backward(); }, {"relu", "[2]", "modified in place", "clone"});
  CHECK(!autograd::in_backward());
  ops::sum(ops::relu(leaf)).backward();
  CHECK(grad_of(leaf) == Floats{1, 0});
}

TEST_CASE("backward: what can not be differentiated is refused") {
  const Tensor leaf = leaf_of({1, 2});
  check_error([&] { (leaf * 2.0).backward(); }, {"backward", "[2]", "one element"});
  check_error([&] { (leaf * 2.0).backward(ones({3})); }, {"backward", "[3]", "[2]"});
  check_error([&] { (leaf * 2.0).backward(ones({2}, DType::Float64)); }, {"Float64", "Float32"});
  check_error([] { ones({1}).backward(); }, {"backward", "requires grad"});
  check_error([] { autograd::backward(Tensor()); }, {"backward"});
  CHECK(!leaf.grad().defined());
}

TEST_CASE("a backward function must give each input one gradient") {
  const Tensor leaf = leaf_of({1});
  struct Nothing {};
  Tensor silent = leaf.clone();
  autograd::record("silent", silent, {leaf}, Nothing{},
                   [](autograd::BackwardContext&, const Nothing&) {});
  check_error([&] { silent.backward(); }, {"silent", "no gradient for input 0"});
  Tensor twice = leaf.clone();
  autograd::record("twice", twice, {leaf}, Nothing{},
                   [](autograd::BackwardContext& context, const Nothing&) {
                     context.pass_through(0, context.grad_output());
                     context.pass_through(0, context.grad_output());
                   });
  check_error([&] { twice.backward(); }, {"twice", "two gradients"});
}

TEST_CASE("100,000 nodes deep: neither backward nor destruction recurses") {
  const Tensor leaf = leaf_of({1});
  {
    Tensor x = leaf;
    for (int i = 0; i < 100000; ++i) x = x * 1.0;
    x.backward();
    CHECK(grad_of(leaf) == Floats{1});
  }
  {
    Tensor x = leaf;
    for (int i = 0; i < 100000; ++i) x = x + leaf;  // destroyed without a backward
  }
  CHECK(leaf.defined());
}

TEST_CASE("a steady training step allocates nothing") {
  if (kSanitized) {
    MESSAGE("skipped: the pools step aside under a sanitizer");
    return;
  }
  Tensor w1 = random_tensor({16, 20}, DType::Float32, 1).requires_grad_();
  Tensor b1 = random_tensor({16}, DType::Float32, 2).requires_grad_();
  Tensor w2 = random_tensor({5, 16}, DType::Float32, 3).requires_grad_();
  Tensor b2 = random_tensor({5}, DType::Float32, 4).requires_grad_();
  const Tensor x = random_tensor({8, 20}, DType::Float32, 5);
  const Tensor targets = Tensor::from_values(std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2}, {8});
  const auto step = [&] {
    for (const Tensor& leaf : {w1, b1, w2, b2}) autograd::zero_grad(leaf);
    const Tensor hidden = ops::linear_relu(x, w1, b1);
    const Tensor logits = ops::linear(ops::gelu(hidden) * 0.5 + hidden, w2, b2);
    ops::cross_entropy(logits.view({8, 5}), targets).backward();
  };
  for (int i = 0; i < 3; ++i) step();
  const int64_t before = g_allocations;
  const int64_t misses = kernels::cpu_allocator_stats().misses;
  for (int i = 0; i < 10; ++i) step();
  CHECK(g_allocations - before == 0);
  CHECK(kernels::cpu_allocator_stats().misses - misses == 0);
  CHECK(!std::isnan(grad_of(w1)[0]));
}
