// Learning rate schedules: PyTorch's recorded values, closed forms, chaining, and resuming.
#include "core/optim/scheduler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;
using namespace lockstep::optim;

namespace {

std::unique_ptr<SGD> make_optimizer(double lr = 1.0) {
  return std::make_unique<SGD>(std::vector<Tensor>{zeros({1}).requires_grad_()},
                               SGDOptions{.lr = lr, .momentum = .9});
}

using Make = std::function<std::unique_ptr<LRScheduler>(Optimizer&)>;

template <typename Scheduler, typename... Args>
Make make(Args... args) {
  return [=](Optimizer& optimizer) { return std::make_unique<Scheduler>(optimizer, args...); };
}

Make make_sequential() {
  return [](Optimizer& optimizer) {
    return std::make_unique<SequentialLR>(optimizer,
                                          std::vector<std::shared_ptr<LRScheduler>>{
                                              std::make_shared<LinearLR>(optimizer, .25, 1.0, 3),
                                              std::make_shared<CosineAnnealingLR>(optimizer, 4)},
                                          std::vector<int64_t>{3});
  };
}

std::vector<double> rates(const Make& make_scheduler, size_t count, double lr = 1.0) {
  const auto optimizer = make_optimizer(lr);
  const auto scheduler = make_scheduler(*optimizer);
  std::vector<double> result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(optimizer->lr());
    if (i + 1 < count) scheduler->step();
  }
  return result;
}

void check_rates(const Make& make_scheduler, const std::vector<double>& expected) {
  const std::vector<double> actual = rates(make_scheduler, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CAPTURE(actual[i]);
    CAPTURE(expected[i]);
    CHECK(std::abs(actual[i] - expected[i]) <= 1e-9);
  }
}

/// Compares `count` epochs, from base 0.5, with a closed form of the epoch. The recursion makes a
/// few roundings an epoch.
void check_formula(const Make& make_scheduler, int64_t count,
                   const std::function<double(double)>& formula) {
  const auto actual = rates(make_scheduler, static_cast<size_t>(count), 0.5);
  for (int64_t t = 0; t < count; ++t) {
    CAPTURE(t);
    const double error = std::abs(actual[static_cast<size_t>(t)] - formula(static_cast<double>(t)));
    CHECK(error <= 8.0 * static_cast<double>(t + 1) * epsilon(DType::Float64));
  }
}

OneCycleOptions one_cycle(int64_t total_steps) {
  return {.max_lr = 1.0, .total_steps = total_steps};
}

}  // namespace

TEST_CASE("schedules give PyTorch's values") {
  check_rates(make<StepLR>(2, .1), {1, 1, .1, .1, .01, .01});
  check_rates(make<CosineAnnealingLR>(4, .1),
              {1, .8681980515, .55, .2318019485, .1, .2318019485, .55});
  check_rates(make<LinearLR>(.25, 1.0, 3), {.25, .5, .75, 1, 1, 1});
  check_rates(make_sequential(), {.25, .5, .75, 1, .8535533906, .5, .1464466094, 0});
  check_rates(make<OneCycleLR>(one_cycle(6)),
              {.04, .9944154355, .8117456539, .4626371027, .1334775302, 4e-06});
  check_rates(make<ExponentialLR>(.9), {1, .9, .81});
  check_rates(make<PolynomialLR>(4, 2.0), {1, .5625, .25, .0625, 0, 0});
}

TEST_CASE("schedules follow their closed forms") {
  check_formula(make<StepLR>(3, .5), 20,
                [](double t) { return .5 * std::pow(.5, std::floor(t / 3)); });
  check_formula(make<MultiStepLR>(std::vector<int64_t>{2, 5, 5, 9}, .5), 12,
                [](double t) { return .5 * std::pow(.5, (t >= 2) + 2 * (t >= 5) + (t >= 9)); });
  check_formula(make<ConstantLR>(.25, 4), 10, [](double t) { return t < 4 ? .125 : .5; });
  check_formula(make<LinearLR>(1.0, 0.0, 8), 12,
                [](double t) { return .5 * (1 - std::min(t, 8.0) / 8); });
  check_formula(make<LambdaLR>([](int64_t t) { return 1.0 / (1.0 + static_cast<double>(t)); }), 9,
                [](double t) { return .5 / (1 + t); });
  check_formula(make<CosineAnnealingWarmRestarts>(3, 2, .1), 30, [](double t) {
    double period = 3;
    while (t >= period) t -= period, period *= 2;
    return .1 + .4 * (1 + std::cos(std::numbers::pi * t / period)) / 2;
  });
  check_formula(make<CosineAnnealingWarmRestarts>(4, 1, 0.0), 30, [](double t) {
    return .25 * (1 + std::cos(std::numbers::pi * std::fmod(t, 4.0) / 4));
  });
}

TEST_CASE("cosine annealing goes up again after t_max, and down, without drifting") {
  const auto actual = rates(make<CosineAnnealingLR>(5, .1), 101);
  for (size_t t = 0; t < actual.size(); ++t) {
    const double expected =
        .1 + .9 * (1 + std::cos(std::numbers::pi * static_cast<double>(t) / 5)) / 2;
    CHECK(std::abs(actual[t] - expected) <= 1e-12);
  }
}

TEST_CASE("OneCycleLR moves the momentum against the rate and ends after total_steps") {
  const auto optimizer = make_optimizer();
  OneCycleLR scheduler(*optimizer, {.max_lr = 1.0, .total_steps = 11, .pct_start = 5.0 / 11});
  CHECK(optimizer->momentum() == .95);
  for (int i = 0; i < 4; ++i) scheduler.step();
  CHECK(optimizer->lr() == doctest::Approx(1.0));
  CHECK(optimizer->momentum() == doctest::Approx(.85));
  for (int i = 0; i < 6; ++i) scheduler.step();
  CHECK(optimizer->lr() == doctest::Approx(4e-6));
  CHECK(optimizer->momentum() == doctest::Approx(.95));
  scheduler.step();  // PyTorch allows one more
  check_error([&] { scheduler.step(); }, {"OneCycleLR", "beyond total_steps 11"});

  const auto plain = make_optimizer();
  OneCycleLR linear(*plain, {.max_lr = 1.0,
                             .total_steps = 5,
                             .pct_start = .6,
                             .anneal_strategy = AnnealStrategy::Linear,
                             .cycle_momentum = false});
  CHECK(plain->momentum() == .9);
  linear.step();
  CHECK(plain->lr() == doctest::Approx((.04 + 1.0) / 2));
}

TEST_CASE("schedules of one optimizer multiply, and a rate set by hand is kept") {
  const auto optimizer = make_optimizer();
  LinearLR warm_up(*optimizer, .5, 1.0, 2);
  ExponentialLR decay(*optimizer, .9);
  CHECK(optimizer->lr() == .5);
  warm_up.step();
  decay.step();
  CHECK(optimizer->lr() == doctest::Approx(.75 * .9));
  warm_up.step();
  decay.step();
  CHECK(optimizer->lr() == doctest::Approx(.81));
  optimizer->set_lr(10.0);
  decay.step();
  CHECK(optimizer->lr() == doctest::Approx(9.0));
}

TEST_CASE("a restored schedule continues where it was") {
  const std::vector<std::pair<const char*, Make>> all = {
      {"StepLR", make<StepLR>(2, .1)},
      {"CosineAnnealingLR", make<CosineAnnealingLR>(4, .1)},
      {"CosineAnnealingWarmRestarts", make<CosineAnnealingWarmRestarts>(2, 2, 0.0)},
      {"LinearLR", make<LinearLR>(.25, 1.0, 5)},
      {"PolynomialLR", make<PolynomialLR>(9, 2.0)},
      {"OneCycleLR", make<OneCycleLR>(one_cycle(10))},
      {"SequentialLR", make_sequential()}};
  for (const auto& [name, make_scheduler] : all) {
    CAPTURE(std::string(name));
    for (const int done : {1, 3, 5}) {
      const auto optimizer = make_optimizer();
      const auto scheduler = make_scheduler(*optimizer);
      for (int i = 0; i < done; ++i) scheduler->step();
      const auto resumed_optimizer = make_optimizer();
      const auto resumed = make_scheduler(*resumed_optimizer);
      resumed_optimizer->load_state_tensors(optimizer->state_tensors());
      resumed->restore(scheduler->last_epoch());
      for (int i = 0; i < 3; ++i) {
        CHECK(resumed_optimizer->lr() == optimizer->lr());
        CHECK(resumed_optimizer->momentum() == optimizer->momentum());
        scheduler->step();
        resumed->step();
      }
    }
  }
}

TEST_CASE("stepping the schedule before the optimizer is said once") {
  int warnings = 0;
  log::set_sink([&](log::Level, std::string_view) { ++warnings; });
  const auto optimizer = make_optimizer();
  StepLR scheduler(*optimizer, 1);
  scheduler.step();
  scheduler.step();
  CHECK(warnings == 1);
  optimizer->step();
  StepLR second(*optimizer, 1);
  second.step();
  CHECK(warnings == 1);
  log::set_sink({});
}

TEST_CASE("schedules refuse options outside their range") {
  const auto optimizer = make_optimizer();
  const auto other = make_optimizer();
  const auto refuse = [&](const Make& make_scheduler, std::initializer_list<const char*> parts) {
    check_error([&] { make_scheduler(*optimizer); }, parts);
  };
  refuse(make<StepLR>(0), {"StepLR", "step_size is 0"});
  refuse(make<LinearLR>(0.0), {"LinearLR", "start_factor is 0"});
  refuse(make<ConstantLR>(2.0), {"ConstantLR", "factor is 2"});
  refuse(make<CosineAnnealingLR>(0), {"t_max is 0"});
  refuse(make<PolynomialLR>(0), {"total_iters is 0"});
  refuse(make<CosineAnnealingWarmRestarts>(0), {"t_0 is 0"});
  refuse(make<OneCycleLR>(one_cycle(1)), {"total_steps is 1"});
  using List = std::vector<std::shared_ptr<LRScheduler>>;
  check_error([&] { SequentialLR(*optimizer, List{}, {}); }, {"SequentialLR"});
  check_error(
      [&] {
        SequentialLR(*optimizer, List{std::make_shared<StepLR>(*other, 1)}, std::vector<int64_t>{});
      },
      {"same optimizer"});
}
