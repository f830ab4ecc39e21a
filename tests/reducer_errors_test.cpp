// What the reducer says when a backward cannot be reduced, and that the other ranks are told. Over
// a process group without other ranks, which records that.
#include <doctest/doctest.h>

#include "dist/distributed_data_parallel.h"
#include "dist/reducer.h"
#include "tests/ddp_models.h"
#include "tests/fake_process_group.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT
using namespace lockstep::test;  // NOLINT

TEST_CASE("unused parameters are named at the end of this backward, and the others are told") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  group->complete_at_once = false;
  Shuffled model;
  model.use_c = false;
  DistributedDataParallel ddp(model, group);
  const std::string message = message_of([&] { step(ddp, ones({1, 3})); });
  CHECK(contains(message, "got no gradient: c.weight, c.bias"));
  CHECK(contains(message, "rank 0"));
  REQUIRE(group->aborts.size() == 1);
  CHECK(contains(group->aborts[0], "c.weight, c.bias"));
  CHECK(autograd::grad_state(model.named_parameters()[0].second) == autograd::GradState::Local);
  CHECK(group->num_open == 0);
  model.use_c = true;  // the tape is in order again
  step(ddp, ones({1, 3}));
  CHECK(ddp.reducer().num_reductions() == 1);
}

TEST_CASE("a parameter frozen after construction is named as such") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group);
  Tensor weight = model.named_parameters()[2].second;
  weight.requires_grad_(false);
  const std::string message = message_of([&] { step(ddp, ones({1, 4})); });
  CHECK(contains(message, "requires_grad was changed since construction: 1.weight;"));
  CHECK_FALSE(contains(message, "got no gradient"));
}

TEST_CASE("a module that is converted after construction is refused") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  model.to(DType::Float64);
  const std::string message = message_of([&] { step(ddp, ones({1, 2}, DType::Float64)); });
  CHECK(contains(message, "bias is no longer in its bucket"));
  CHECK(group->aborts.size() == 1);
}

TEST_CASE("forward and backward on different sides of no_sync") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  Tensor output;
  {
    const auto guard = ddp.no_sync();
    output = ops::sum(ddp(ones({1, 2})));
  }
  CHECK(contains(message_of([&] { output.backward(); }),
                 "forward ran inside no_sync and its backward outside"));
  output = ops::sum(ddp(ones({1, 2})));
  const auto guard = ddp.no_sync();
  CHECK(contains(message_of([&] { output.backward(); }),
                 "forward ran outside no_sync and its backward inside"));
  CHECK(group->aborts.size() == 2);
}

TEST_CASE("a backward that ends by an exception tells the others, and leaves no work open") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  group->complete_at_once = false;
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = kOneParameterBuckets});
  auto handle = autograd::register_post_accumulate_grad_hook(
      model.named_parameters()[2].second,
      [](const Tensor&) { LOCKSTEP_THROW(BadData, "from a hook"); });
  CHECK(contains(message_of([&] { step(ddp, ones({1, 4})); }), "from a hook"));
  REQUIRE(group->aborts.size() == 1);
  CHECK(contains(group->aborts[0], "exception"));
  CHECK(group->num_open == 0);
  handle.remove();
  step(ddp, ones({1, 4}));
  CHECK(ddp.reducer().num_reductions() == 1);
}

TEST_CASE("a failed all-reduce is reported with its bucket and parameters") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  group->failure = "all_reduce: rank 1 died";
  try {
    step(ddp, ones({1, 2}));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::PeerLost);
    CHECK(std::string(error.what()) ==
          "backward: bucket 0 of 1 (bias, weight): all_reduce: rank 1 died");
  }
  CHECK(autograd::grad_state(model.weight) == autograd::GradState::Local);
}

TEST_CASE("a module belongs to one DistributedDataParallel, and is free after it") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  Tensor output;
  std::vector<float> expected;
  {
    DistributedDataParallel ddp(model, group);
    CHECK(contains(message_of([&] { DistributedDataParallel second(model, group); }),
                   "weight already belongs to another"));
    step(ddp, ones({3, 2}));
    expected = gradient(model.weight);
    output = ops::sum(ddp(ones({1, 2})));
  }
  CHECK(gradient(model.weight) == expected);
  CHECK(autograd::grad_sync(model.weight) == nullptr);
  CHECK(contains(message_of([&] { output.backward(); }), "is gone"));
  ops::sum(model(ones({1, 2}))).backward();
  DistributedDataParallel again(model, group);
  step(again, ones({1, 2}));
  CHECK(again.reducer().num_reductions() == 1);
}

TEST_CASE("a backward that does not pass the output is reduced when it is complete") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  ops::sum(model(ones({1, 2}))).backward();
  CHECK(ddp.reducer().num_reductions() == 1);
  CHECK(contains(message_of([&] { ops::sum(model.weight).backward(); }), "got no gradient: bias;"));
  // A backward of something else is none of its business.
  Tensor other = ones({2});
  other.requires_grad_();
  ops::sum(other).backward();
  CHECK(ddp.reducer().num_reductions() == 1);
}

TEST_CASE("what cannot be wrapped") {
  const auto group = std::make_shared<FakeProcessGroup>(2);
  nn::Linear model(2, 2);
  CHECK(contains(message_of([&] { DistributedDataParallel ddp(model, nullptr); }), "null"));
  CHECK(contains(
      message_of([&] { DistributedDataParallel ddp(model, group, {.bucket_cap_mb = -1}); }),
      "bucket_cap_mb is -1"));
  model.weight.requires_grad_(false);
  model.bias.requires_grad_(false);
  CHECK(contains(message_of([&] { DistributedDataParallel ddp(model, group); }),
                 "no parameter of the module requires grad"));
}
