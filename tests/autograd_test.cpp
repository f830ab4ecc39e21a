// What users and DDP see of autograd: grad mode, gradient states and memory, hooks, callbacks, and
// the errors. The traversal itself is tested in autograd_engine_test.cpp.
#include "core/autograd.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "core/ops.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;
using autograd::GradState;

namespace {

using Floats = std::vector<float>;

Tensor leaf_of(const Floats& values) {
  return Tensor::from_values(values, {static_cast<int64_t>(values.size())}).requires_grad_();
}

Floats grad_of(const Tensor& leaf) { return leaf.grad().to_vector<float>(); }

}  // namespace

TEST_CASE("no_grad: nothing is recorded inside, guards nest, each thread has its own") {
  const Tensor leaf = leaf_of({1, 2});
  CHECK(is_grad_enabled());
  {
    const NoGradGuard guard;
    CHECK(!is_grad_enabled());
    CHECK(!(leaf * 2.0).requires_grad());
    {
      const EnableGradGuard enable;
      CHECK((leaf * 2.0).requires_grad());
    }
    CHECK(!is_grad_enabled());
    bool enabled_in_thread = false;
    std::thread([&] { enabled_in_thread = is_grad_enabled(); }).join();
    CHECK(enabled_in_thread);
  }
  CHECK((leaf * 2.0).requires_grad());
  CHECK(!(leaf.detach() * 2.0).requires_grad());
}

TEST_CASE("a gradient is undefined, then local, then reduced, then undefined again") {
  const Tensor leaf = leaf_of({1, 2});
  CHECK(autograd::grad_state(leaf) == GradState::Undefined);
  CHECK(!leaf.grad().defined());
  CHECK(!autograd::grad_memory(leaf).defined());
  ops::sum(leaf).backward();
  CHECK(autograd::grad_state(leaf) == GradState::Local);
  autograd::mark_reduced(leaf);
  CHECK(autograd::grad_state(leaf) == GradState::Reduced);
  CHECK(grad_of(leaf) == Floats{1, 1});
  ops::sum(leaf).backward();  // this rank's contribution on top of an average is no average
  CHECK(autograd::grad_state(leaf) == GradState::Local);
  autograd::zero_grad(leaf);
  CHECK(autograd::grad_state(leaf) == GradState::Undefined);
  CHECK(!leaf.grad().defined());
  CHECK(autograd::grad_memory(leaf).defined());
}

TEST_CASE("zero_grad touches no memory, and the next backward overwrites what is there") {
  const Tensor leaf = leaf_of({1, 2});
  Tensor memory = full({2}, 5.0);
  autograd::set_grad_memory(leaf, memory);
  CHECK(!leaf.grad().defined());
  (leaf * 3.0).backward(ones({2}));
  CHECK(memory.to_vector<float>() == Floats{3, 3});
  autograd::zero_grad(leaf);
  CHECK(memory.to_vector<float>() == Floats{3, 3});
  memory.fill_(NAN);
  (leaf * 4.0).backward(ones({2}));
  CHECK(grad_of(leaf) == Floats{4, 4});
  CHECK(leaf.grad().raw_data() == memory.raw_data());
  (leaf * 4.0).backward(ones({2}));  // defined: added
  CHECK(memory.to_vector<float>() == Floats{8, 8});
}

TEST_CASE("set_grad_memory carries a defined gradient over, and back to memory of its own") {
  const Tensor leaf = leaf_of({1, 2});
  ops::sum(leaf).backward();
  autograd::mark_reduced(leaf);
  const Storage bucket = Storage::allocate(32, kCPU);
  const Tensor slice = Tensor::from_storage(bucket, 3, {2}, DType::Float32);
  autograd::set_grad_memory(leaf, slice);
  CHECK(slice.to_vector<float>() == Floats{1, 1});
  CHECK(autograd::grad_state(leaf) == GradState::Reduced);
  CHECK(leaf.grad().storage() == bucket);
  autograd::set_grad_memory(leaf, Tensor());
  CHECK(!(leaf.grad().storage() == bucket));
  CHECK(grad_of(leaf) == Floats{1, 1});
  CHECK(autograd::grad_state(leaf) == GradState::Reduced);
  autograd::zero_grad(leaf);
  autograd::set_grad_memory(leaf, Tensor());
  CHECK(!autograd::grad_memory(leaf).defined());
}

TEST_CASE("set_grad copies; an undefined gradient forgets") {
  const Tensor leaf = leaf_of({1, 2});
  Tensor given = full({2}, 7.0);
  autograd::set_grad(leaf, given);
  given.fill_(0.0);
  CHECK(grad_of(leaf) == Floats{7, 7});
  CHECK(autograd::grad_state(leaf) == GradState::Local);
  ops::sum(leaf).backward();
  CHECK(grad_of(leaf) == Floats{8, 8});
  autograd::set_grad(leaf, Tensor());
  CHECK(!leaf.grad().defined());
}

TEST_CASE("gradients of another shape, dtype or device are refused") {
  const Tensor leaf = leaf_of({1, 2});
  check_error([&] { autograd::set_grad(leaf, zeros({3})); }, {"set_grad", "[3]", "[2]"});
  check_error([&] { autograd::set_grad(leaf, zeros({2}, DType::Float64)); },
              {"set_grad", "Float64", "Float32"});
  check_error([&] { autograd::set_grad_memory(leaf, zeros({2, 1})); }, {"[2, 1]", "[2]"});
  check_error([&] { autograd::set_grad_memory(leaf, cuda_tensor({2}, DType::Float32)); },
              {"set_grad_memory", "cuda:0", "cpu"});
  check_error([&] { autograd::set_grad(zeros({2}), zeros({2})); }, {"set_grad", "leaf"});
  check_error([&] { autograd::zero_grad(leaf * 2.0); }, {"zero_grad", "leaf"});
  check_error([&] { autograd::grad_state(Tensor()); }, {"grad_state", "leaf"});
}

TEST_CASE("hooks: a list, in order, once a backward, after the last contribution") {
  const Tensor leaf = leaf_of({1, 2});
  std::vector<int> order;
  std::vector<Floats> seen;
  autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor& tensor) {
    CHECK(tensor.is_same(leaf));
    CHECK(autograd::in_backward());
    order.push_back(1);
    seen.push_back(grad_of(tensor));
  });
  autograd::HookHandle second = autograd::register_post_accumulate_grad_hook(
      leaf, [&](const Tensor&) { order.push_back(2); });
  // Three contributions: the hook must see their sum.
  ops::sum(leaf * 2.0 + leaf * 3.0 + leaf).backward();
  CHECK(order == std::vector<int>{1, 2});
  CHECK(seen == std::vector<Floats>{{6, 6}});
  ops::sum(leaf).backward();
  CHECK(order == std::vector<int>{1, 2, 1, 2});
  CHECK(seen.back() == Floats{7, 7});
  second.remove();
  second.remove();
  ops::sum(leaf).backward();
  CHECK(order == std::vector<int>{1, 2, 1, 2, 1});
}

TEST_CASE("hooks: one that removes itself does not hide the next one") {
  const Tensor leaf = leaf_of({1});
  std::vector<int> order;
  autograd::HookHandle first;
  first = autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) {
    order.push_back(1);
    first.remove();
  });
  autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) { order.push_back(2); });
  leaf.backward();
  leaf.backward();
  CHECK(order == std::vector<int>{1, 2, 2});
}

TEST_CASE("hooks: a handle outlives its leaf, dropping it keeps the hook, leaves only") {
  autograd::HookHandle handle;
  {
    const Tensor leaf = leaf_of({1});
    handle = autograd::register_post_accumulate_grad_hook(leaf, [](const Tensor&) {});
  }
  handle.remove();
  int calls = 0;
  const Tensor leaf = leaf_of({1});
  {
    autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) { ++calls; });
  }
  leaf.backward();
  CHECK(calls == 1);
  const auto hook = [](const Tensor&) {};
  check_error([&] { autograd::register_post_accumulate_grad_hook(leaf * 2.0, hook); },
              {"register_post_accumulate_grad_hook", "leaf"});
}

TEST_CASE("callbacks run once when the backward ends, after every hook") {
  const Tensor a = leaf_of({1});
  const Tensor b = leaf_of({2});
  std::vector<std::string> events;
  for (const Tensor& leaf : {a, b}) {
    autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) {
      if (events.empty()) {
        autograd::queue_callback([&](bool completed) {
          CHECK(!autograd::in_backward());
          events.push_back(completed ? "end" : "broken");
        });
      }
      events.push_back("hook");
    });
  }
  (a + b).backward();
  CHECK(events == std::vector<std::string>{"hook", "hook", "end"});
  check_error([] { autograd::queue_callback([](bool) {}); }, {"queue_callback", "no backward"});
}

TEST_CASE("callbacks hear of an exception, which then reaches the caller; the engine works on") {
  const Tensor leaf = leaf_of({1});
  int broken = 0;
  int completed = 0;
  bool fail = true;
  autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) {
    autograd::queue_callback([&](bool ok) { ++(ok ? completed : broken); });
    if (fail) LOCKSTEP_THROW(PeerLost, "rank 1 is gone");
  });
  check_error([&] { (leaf * 2.0).backward(); }, {"rank 1 is gone"});
  CHECK(broken == 1);
  CHECK(completed == 0);
  CHECK(!autograd::in_backward());
  fail = false;
  autograd::zero_grad(leaf);
  (leaf * 2.0).backward();
  CHECK(completed == 1);
  CHECK(grad_of(leaf) == Floats{2});
}

TEST_CASE("an exception of a callback reaches the caller, and the later callbacks hear of it") {
  const Tensor leaf = leaf_of({1});
  std::vector<bool> heard;
  const autograd::HookHandle handle =
      autograd::register_post_accumulate_grad_hook(leaf, [&](const Tensor&) {
        autograd::queue_callback(
            [](bool) { LOCKSTEP_THROW(Internal, "0.weight was not reduced"); });
        autograd::queue_callback([&](bool ok) { heard.push_back(ok); });
      });
  check_error([&] { leaf.backward(); }, {"0.weight was not reduced"});
  CHECK(heard == std::vector<bool>{false});
  autograd::HookHandle(handle).remove();
  leaf.backward();
  CHECK(grad_of(leaf) == Floats{2});
}

TEST_CASE("backward_id tells backwards apart; one inside another is refused") {
  const Tensor leaf = leaf_of({1});
  std::vector<uint64_t> ids;
  autograd::HookHandle handle = autograd::register_post_accumulate_grad_hook(
      leaf, [&](const Tensor&) { ids.push_back(autograd::backward_id()); });
  CHECK(autograd::backward_id() == 0);
  leaf.backward();
  leaf.backward();
  REQUIRE(ids.size() == 2);
  CHECK(ids[0] != 0);
  CHECK(ids[0] != ids[1]);
  handle.remove();
  autograd::register_post_accumulate_grad_hook(leaf, [](const Tensor& tensor) {
    check_error([&] { tensor.backward(); }, {"backward", "inside another backward"});
  });
  leaf.backward();
  CHECK(!autograd::in_backward());
}

TEST_CASE("the name and the DDP state of a leaf") {
  const Tensor leaf = leaf_of({1});
  CHECK(autograd::leaf_name(leaf).empty());
  autograd::set_leaf_name(leaf, "0.weight");
  CHECK(autograd::leaf_name(leaf) == "0.weight");
  CHECK(autograd::grad_sync(leaf) == nullptr);
  const auto sync = std::make_shared<autograd::GradSync>();
  autograd::set_grad_sync(leaf, sync);
  sync->require_sync = false;
  REQUIRE(autograd::grad_sync(leaf) == sync.get());
  CHECK(!autograd::grad_sync(leaf)->require_sync);
  autograd::set_grad_sync(leaf, nullptr);
  CHECK(autograd::grad_sync(leaf) == nullptr);
}
