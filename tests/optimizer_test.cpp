// What every optimizer shares: skipped parameters, refused gradients, versions, saved state, and
// that a steady step allocates nothing.
#include "core/optim/optimizer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "kernels/allocator.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

std::atomic<int64_t> g_allocations{0};

Tensor parameter(const Shape& shape, unsigned seed, DType dtype = DType::Float32) {
  return random_tensor(shape, dtype, seed).requires_grad_();
}

void give_grad(const Tensor& leaf, unsigned seed) {
  autograd::set_grad(leaf, random_tensor(leaf.shape(), leaf.dtype(), seed));
}

using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<nn::NamedTensor>)>;

struct Kind {
  const char* name;
  Make make;
};

std::vector<Kind> kinds() {
  return {{"SGD",
           [](auto parameters) {
             return std::make_unique<optim::SGD>(std::move(parameters),
                                                 optim::SGDOptions{.lr = .1});
           }},
          {"SGD with momentum",
           [](auto parameters) {
             return std::make_unique<optim::SGD>(
                 std::move(parameters),
                 optim::SGDOptions{.lr = .1, .momentum = .9, .weight_decay = .01});
           }},
          {"AdamW",
           [](auto parameters) {
             return std::make_unique<optim::AdamW>(std::move(parameters),
                                                   optim::AdamWOptions{.lr = .1});
           }},
          {"AdamW with amsgrad", [](auto parameters) {
             return std::make_unique<optim::AdamW>(std::move(parameters),
                                                   optim::AdamWOptions{.lr = .1, .amsgrad = true});
           }}};
}

}  // namespace

// Counts every allocation of this program, so that a step can show that it makes none. (Inlined,
// g++ would take the pair for a mismatch.)
[[gnu::noinline]] void* operator new(std::size_t nbytes) {
  ++g_allocations;
  if (void* block = std::malloc(nbytes == 0 ? 1 : nbytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }

TEST_CASE("step skips a parameter without gradient: no decay, no momentum, no state") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const Tensor a = parameter({5}, 1);
    const Tensor b = parameter({5}, 2);
    const auto before = b.to_vector<float>();
    const auto optimizer = kind.make({{"a", a}, {"b", b}});
    give_grad(a, 3);
    optimizer->step();
    CHECK(b.to_vector<float>() == before);
    for (const auto& [name, tensor] : optimizer->state_tensors()) {
      CHECK(name.rfind("b.", 0) == std::string::npos);
    }
    CHECK(optimizer->num_steps() == 1);
    optimizer->zero_grad();
    CHECK_FALSE(a.grad().defined());
    const auto stepped = a.to_vector<float>();
    optimizer->step();
    CHECK(a.to_vector<float>() == stepped);
  }
}

TEST_CASE("step bumps the version of what it changed, so that autograd sees it") {
  for (const Kind& kind : kinds()) {
    const Tensor a = parameter({5}, 1);
    const Tensor b = parameter({5}, 2);
    const auto optimizer = kind.make({{"a", a}, {"b", b}});
    give_grad(a, 3);
    const uint64_t version_a = a.storage().version();
    const uint64_t version_b = b.storage().version();
    optimizer->step();
    CHECK(a.storage().version() == version_a + 1);
    CHECK(b.storage().version() == version_b);
  }
}

TEST_CASE("a steady step allocates nothing") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    std::vector<nn::NamedTensor> parameters;
    for (unsigned i = 0; i < 20; ++i) {
      parameters.emplace_back("p" + std::to_string(i), parameter({300}, i));
    }
    const auto optimizer = kind.make(parameters);
    for (const auto& [name, tensor] : parameters) give_grad(tensor, 50);
    optimizer->step();
    optim::clip_grad_norm_(parameters, 1.0);
    const int64_t before = g_allocations;
    const int64_t misses = kernels::cpu_allocator_stats().misses;
    for (int i = 0; i < 3; ++i) {
      optim::clip_grad_norm_(parameters, 1.0);
      optimizer->step();
    }
    CHECK(g_allocations == before);
    CHECK(kernels::cpu_allocator_stats().misses == misses);
  }
}

TEST_CASE("step refuses DDP gradients that were never averaged, naming them, and changes nothing") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const Tensor a = parameter({3}, 1);
    const Tensor b = parameter({3}, 2);
    const Tensor c = parameter({3}, 3);
    const auto optimizer = kind.make({{"fc.weight", a}, {"fc.bias", b}, {"own", c}});
    const auto sync = std::make_shared<autograd::GradSync>();
    autograd::set_grad_sync(a, sync);
    autograd::set_grad_sync(b, sync);
    for (const Tensor& leaf : {a, b, c}) give_grad(leaf, 4);
    autograd::mark_reduced(a);
    const auto before = c.to_vector<float>();
    const std::string message = error_of([&] { optimizer->step(); });
    CHECK(message.find("fc.bias") != std::string::npos);
    CHECK(message.find("fc.weight") == std::string::npos);
    CHECK(message.find("no_sync") != std::string::npos);
    CHECK(c.to_vector<float>() == before);
    CHECK(optimizer->num_steps() == 0);

    sync->require_sync = false;  // inside a live no_sync guard
    optimizer->step();
    CHECK(c.to_vector<float>() != before);
    sync->require_sync = true;
    autograd::mark_reduced(b);
    optimizer->step();
    CHECK(optimizer->num_steps() == 2);
  }
}

TEST_CASE("a saved state continues bit for bit") {
  for (const Kind& kind : kinds()) {
    for (const DType dtype : {DType::Float32, DType::Float64, DType::BFloat16}) {
      CAPTURE(kind.name);
      const Tensor a = parameter({40}, 1, dtype);
      const Tensor late = parameter({7}, 2, dtype);
      const auto optimizer = kind.make({{"a", a}, {"late", late}});
      for (unsigned i = 0; i < 3; ++i) {
        give_grad(a, 10 + i);
        if (i == 2) give_grad(late, 30);
        optimizer->step();
      }
      optimizer->set_lr(.05);
      const Tensor a2 = a.clone().requires_grad_();
      const Tensor late2 = late.clone().requires_grad_();
      const auto resumed = kind.make({{"a", a2}, {"late", late2}});
      resumed->load_state_tensors(optimizer->state_tensors());
      CHECK(resumed->num_steps() == 3);
      CHECK(resumed->lr() == .05);
      for (unsigned i = 0; i < 2; ++i) {
        for (const Tensor& leaf : {a, late, a2, late2}) give_grad(leaf, 20 + i);
        optimizer->step();
        resumed->step();
      }
      CHECK(to_matrix(a) == to_matrix(a2));
      CHECK(to_matrix(late) == to_matrix(late2));
    }
  }
}

TEST_CASE("load_state_tensors refuses what does not fit, and then changes nothing") {
  const auto sgd = kinds()[1].make;
  const Tensor a = parameter({4}, 1);
  const auto optimizer = sgd({{"a", a}});
  give_grad(a, 2);
  optimizer->step();
  const auto state = optimizer->state_tensors();
  const auto fresh = sgd({{"a", a}});
  const auto without = [&](const std::string& name) {
    auto copy = state;
    std::erase_if(copy, [&](const auto& entry) { return entry.first == name; });
    return copy;
  };
  const auto with = [&](const std::string& name, const Tensor& tensor) {
    auto copy = without(name);
    copy.emplace_back(name, tensor);
    return copy;
  };
  check_error([&] { fresh->load_state_tensors(without("lr")); }, {"lr is missing"});
  check_error([&] { fresh->load_state_tensors(with("lr", ones({1}))); }, {"lr", "Float64"});
  check_error([&] { fresh->load_state_tensors(with("b.momentum_buffer", zeros({4}))); },
              {"unexpected b.momentum_buffer"});
  check_error([&] { fresh->load_state_tensors(with("a.momentum_buffer", zeros({5}))); },
              {"a.momentum_buffer", "[5]", "[4]"});
  CHECK(fresh->num_steps() == 0);
  CHECK(fresh->state_tensors().size() == 3);

  const auto adamw = kinds()[2].make({{"a", a}});
  check_error([&] { adamw->load_state_tensors(state); }, {"unexpected a.momentum_buffer"});
  adamw->step();
  auto half = adamw->state_tensors();
  std::erase_if(half, [](const auto& entry) { return entry.first == "a.exp_avg"; });
  check_error([&] { adamw->load_state_tensors(half); }, {"state of a", "incomplete"});
}

TEST_CASE("an optimizer needs leaves, each once") {
  const Tensor a = parameter({4}, 1);
  check_error([] { optim::SGD optimizer(std::vector<Tensor>{}, {}); }, {"empty"});
  check_error([] { optim::SGD optimizer({{"w", zeros({2})}}, {}); }, {"w", "leaf"});
  check_error([&] { optim::SGD optimizer({{"a", a}, {"b", a}}, {}); }, {"twice"});
}
