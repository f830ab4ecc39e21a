// The reducer alone, over a process group without other ranks: plans, order of events, states.
#include "dist/reducer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "core/base/error.h"
#include "core/base/sanitizer.h"
#include "core/nn/layers.h"
#include "core/ops.h"
#include "core/random.h"
#include "dist/distributed_data_parallel.h"
#include "tests/ddp_models.h"
#include "tests/fake_process_group.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT
using namespace lockstep::test;  // NOLINT

namespace {

int64_t g_allocations = 0;

constexpr auto kHook = ReducerEventKind::HookFired;
constexpr auto kReady = ReducerEventKind::BucketReady;
constexpr auto kLaunched = ReducerEventKind::BucketLaunched;
constexpr auto kReduced = ReducerEventKind::BucketReduced;
constexpr auto kFinalized = ReducerEventKind::Finalized;

}  // namespace

// Counts what a step allocates. The sanitizers' own operators are replaced too, which they allow.
[[gnu::noinline]] void* operator new(size_t nbytes) {
  ++g_allocations;
  if (void* block = std::malloc(nbytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

TEST_CASE("a bucket is launched with its last gradient, and reduced before later gradients come") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Sequential model = three_layers();  // parameters: w0 b0 w1 b1 w2 b2
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = 36.0 / 1024 / 1024});
  // Reverse order, closed at 36 bytes: b2 (8) w2 (24) b1 (12) | w1 (36) | b0 (12) w0 (48).
  REQUIRE(ddp.reducer().plan().size() == 3);
  CHECK(ddp.reducer().plan()[0].parameters == std::vector<int64_t>{5, 4, 3});
  CHECK(ddp.reducer().plan()[1].parameters == std::vector<int64_t>{2});
  CHECK(ddp.reducer().plan()[2].parameters == std::vector<int64_t>{1, 0});
  ddp.reducer().record_events(true);
  step(ddp, ones({2, 4}));
  const std::vector<ReducerEvent> expected = {
      {kHook, 5},    {kHook, 4},     {kHook, 3},     {kReady, 0},    {kLaunched, 0}, {kHook, 2},
      {kReduced, 0}, {kReady, 1},    {kLaunched, 1}, {kHook, 1},     {kReduced, 1},  {kHook, 0},
      {kReady, 2},   {kLaunched, 2}, {kReduced, 2},  {kFinalized, 0}};
  CHECK(ddp.reducer().events() == expected);
  CHECK(group->num_open == 0);
}

TEST_CASE("all-reduces that take until the end are waited for in index order") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  group->complete_at_once = false;
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = kOneParameterBuckets});
  ddp.reducer().record_events(true);
  step(ddp, ones({1, 4}));
  const auto& events = ddp.reducer().events();
  REQUIRE(events.size() == 6 * 4 + 1);
  for (int64_t b = 0; b < 6; ++b) {
    CHECK(events[static_cast<size_t>(18 + b)] == ReducerEvent{kReduced, b});
  }
  CHECK(events.back() == ReducerEvent{kFinalized, 0});
}

TEST_CASE(
    "launches are in index order whatever the order of gradients, and the rebuild adopts it") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  group->reduced_numels.reserve(100);
  Shuffled model;  // parameters: a.w a.b b.w b.b c.w c.b
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = kOneParameterBuckets});
  ddp.reducer().record_events(true);
  step(ddp, ones({1, 3}));
  const auto launches = [&] {
    std::vector<int64_t> order;
    int64_t hooks_before_first = 0;
    for (const ReducerEvent& event : ddp.reducer().events()) {
      if (event.kind == kHook && order.empty()) ++hooks_before_first;
      if (event.kind == kLaunched) order.push_back(event.index);
    }
    CHECK(order == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
    return hooks_before_first;
  };
  // Bucket 0 holds c.b, whose gradient comes fifth.
  CHECK(ddp.reducer().plan()[0].parameters == std::vector<int64_t>{5});
  CHECK(launches() == 5);
  CHECK_FALSE(ddp.reducer().has_rebuilt());

  ddp.reducer().clear_events();
  step(ddp, ones({1, 3}));
  CHECK(ddp.reducer().has_rebuilt());
  CHECK(ddp.reducer().plan()[0].parameters == std::vector<int64_t>{3});
  CHECK(launches() == 1);
  CHECK(group->num_allocations == 12);
}

TEST_CASE("a rank adopts rank 0's order, not its own") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  group->adopt_order = [](const Tensor& order) {
    order.detach().copy_(Tensor::from_values(std::vector<int64_t>{2, 0, 1, 5, 3, 4}, {6}));
  };
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = kOneParameterBuckets});
  step(ddp, ones({1, 4}));
  step(ddp, ones({1, 4}));
  std::vector<int64_t> order;
  for (const PlannedBucket& bucket : ddp.reducer().plan()) order.push_back(bucket.parameters[0]);
  CHECK(order == std::vector<int64_t>{2, 0, 1, 5, 3, 4});
}

TEST_CASE("no rebuild when gradients arrive in reverse order of registration") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group);
  for (int i = 0; i < 3; ++i) step(ddp, ones({1, 4}));
  CHECK(ddp.reducer().has_rebuilt());
  CHECK(group->num_allocations == 1);
}

TEST_CASE("gradients are slices of the buckets, and a rebuild carries them over") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  manual_seed(3);
  Shuffled model;
  DistributedDataParallel ddp(model, group);
  const auto parameters = model.named_parameters();
  step(ddp, ones({1, 3}));
  const void* before = parameters[0].second.grad().raw_data();
  const auto first = gradient(parameters[0].second);
  {
    const auto guard = ddp.no_sync();
    step(ddp, ones({1, 3}));
  }
  CHECK(parameters[0].second.grad().raw_data() == before);
  for (const auto& [name, parameter] : parameters) {
    CHECK(autograd::grad_state(parameter) == autograd::GradState::Local);
  }
  step(ddp, ones({1, 3}));  // rebuilds, then adds to what was carried over
  CHECK(ddp.reducer().has_rebuilt());
  CHECK(parameters[0].second.grad().raw_data() != before);
  const auto third = gradient(parameters[0].second);
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(third[i] == first[i] + first[i] + first[i]);  // the same gradient, added three times
  }
}

TEST_CASE("states: undefined, local, reduced") {
  const auto group = std::make_shared<FakeProcessGroup>(3);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  CHECK(autograd::grad_state(model.weight) == autograd::GradState::Undefined);
  {
    const auto guard = ddp.no_sync();
    CHECK_FALSE(autograd::grad_sync(model.weight)->require_sync);
    step(ddp, ones({1, 2}));
    CHECK(autograd::grad_state(model.weight) == autograd::GradState::Local);
  }
  CHECK(autograd::grad_sync(model.weight)->require_sync);
  CHECK(group->num_open == 0);
  CHECK(ddp.reducer().num_reductions() == 0);
  step(ddp, ones({1, 2}));
  CHECK(autograd::grad_state(model.weight) == autograd::GradState::Reduced);
  CHECK(autograd::grad_state(model.bias) == autograd::GradState::Reduced);
  CHECK(ddp.reducer().num_reductions() == 1);
  CHECK(autograd::leaf_name(model.weight) == "weight");
}

TEST_CASE("no_sync guards nest and restore") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  {
    const auto outer = ddp.no_sync();
    { const auto inner = ddp.no_sync(); }
    CHECK_FALSE(autograd::grad_sync(model.weight)->require_sync);
  }
  CHECK(autograd::grad_sync(model.weight)->require_sync);
}

TEST_CASE("two backwards of one forward are two reductions") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  const Tensor loss = ops::sum(ddp(ones({3, 2})));
  autograd::backward(loss, Tensor(), {.retain_graph = true});
  autograd::backward(loss);
  CHECK(ddp.reducer().num_reductions() == 2);
  CHECK(gradient(model.bias) == std::vector<float>{6, 6});
}

TEST_CASE("a gradient that another hook dropped is reduced as zero") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  // Registered first, so it runs before the reducer's hook.
  autograd::register_post_accumulate_grad_hook(
      model.bias, [](const Tensor& leaf) { autograd::zero_grad(leaf); });
  DistributedDataParallel ddp(model, group);
  step(ddp, ones({4, 2}));
  CHECK(gradient(model.bias) == std::vector<float>{0, 0});
  CHECK(gradient(model.weight) == std::vector<float>{4, 4, 4, 4});
}

TEST_CASE("a parameter that is used twice is one gradient") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  class Twice : public nn::Module {
   public:
    Twice() {
      register_module("first", layer_);
      register_module("second", layer_);
    }
    Tensor forward(const Tensor& input) override { return (*layer_)((*layer_)(input)); }

   private:
    std::shared_ptr<nn::Linear> layer_ = std::make_shared<nn::Linear>(2, 2);
  };
  Twice model;
  DistributedDataParallel ddp(model, group);
  ddp.reducer().record_events(true);
  step(ddp, ones({1, 2}));
  const auto count = std::count_if(ddp.reducer().events().begin(), ddp.reducer().events().end(),
                                   [](const ReducerEvent& event) { return event.kind == kHook; });
  CHECK(count == 2);
  CHECK(ddp.reducer().num_reductions() == 1);
}

TEST_CASE("a steady step allocates nothing") {
  if (kSanitized) {
    MESSAGE("skipped: under a sanitizer every small object is allocated");
    return;
  }
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = kOneParameterBuckets});
  const Tensor input = ones({2, 4});
  const auto one_step = [&] {
    for (int micro = 0; micro < 2; ++micro) {
      const auto guard = ddp.no_sync();
      step(ddp, input);
    }
    step(ddp, input);
    model.zero_grad();
  };
  for (int i = 0; i < 3; ++i) one_step();
  const int64_t before = g_allocations;
  for (int i = 0; i < 5; ++i) one_step();
  CHECK(g_allocations == before);
}
