// --schedule: what is accepted, what is refused, and that each name makes PyTorch's schedule.
#include "apps/schedule_spec.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kEpochs = 4;

/// Learning rates of the first `count` epochs (or steps) from a base rate of 1.
std::vector<double> rates(const std::string& text, int count, int64_t total_steps = 6) {
  Tensor parameter = zeros({1});
  parameter.requires_grad_();
  optim::SGD optimizer(std::vector<Tensor>{parameter}, {.lr = 1.0, .momentum = 0.9});
  const auto scheduler = make_scheduler(parse_schedule_spec(text, kEpochs), optimizer, total_steps);
  std::vector<double> result;
  for (int i = 0; i < count; ++i) {
    result.push_back(optimizer.lr());
    if (scheduler && i + 1 < count) scheduler->step();
  }
  return result;
}

void check_rates(const std::string& text, const std::vector<double>& expected) {
  CAPTURE(text);
  const auto actual = rates(text, static_cast<int>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    // Printed by PyTorch to ten digits.
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
}

void check_refused(const std::string& text) {
  CAPTURE(text);
  try {
    parse_schedule_spec(text, kEpochs);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Usage);
    CHECK(std::string(error.what()).find("--schedule \"" + text + "\"") == 0);
  }
}

}  // namespace

TEST_CASE("each name makes PyTorch's schedule") {
  check_rates("none", {1, 1, 1});
  check_rates("step:2,0.1", {1, 1, .1, .1, .01, .01});
  check_rates("step:2", {1, 1, .1, .1});
  check_rates("multistep:1,3", {1, .1, .1, .01});
  check_rates("exponential:0.9", {1, .9, .81});
  check_rates("linear:0.25,1,3", {.25, .5, .75, 1, 1, 1});
  check_rates("linear", {1.0 / 3, 1.0 / 3 + 2.0 / 15, 1.0 / 3 + 4.0 / 15});
  check_rates("constant:0.5,2", {.5, .5, 1, 1});
  check_rates("cosine:4,0.1", {1, .8681980515, .55, .2318019485, .1, .2318019485, .55});
  check_rates("cosine", {1, .8535533906, .5, .1464466094});  // over the 4 epochs of the run
  check_rates("cosine_restarts:2,1", {1, .5, 1, .5});
  check_rates("polynomial:4,2", {1, .5625, .25, .0625, 0, 0});
  check_rates("polynomial", {1, .75, .5, .25});
  check_rates("onecycle:1", {.04, .9944154355, .8117456539, .4626371027, .1334775302, 4e-06});
}

TEST_CASE("only onecycle advances once a step") {
  CHECK(parse_schedule_spec("onecycle:0.1", kEpochs).is_per_step());
  CHECK_FALSE(parse_schedule_spec("cosine", kEpochs).is_per_step());
}

TEST_CASE("what is not a schedule is refused") {
  for (const char* text : {"",
                           "cosin",
                           "step",
                           "step:",
                           "step:0",
                           "step:1.5",
                           "step:2,x",
                           "step:2,0.1,3",
                           "step:-2",
                           "step:2,nan",
                           "step:2,inf",
                           "multistep:",
                           "multistep:3,1",
                           "exponential",
                           "linear:1,2,0",
                           "cosine:4,0.1,2",
                           "onecycle",
                           "none:1",
                           "cosine:1e300",
                           "step:2,"}) {
    check_refused(text);
  }
}

}  // namespace lockstep::apps
