// The schedules. Formulas keep PyTorch's order of operations: a chain of a thousand steps then ends
// at the same double.
#include "core/optim/scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/base/log.h"

namespace lockstep::optim {
namespace {

using std::numbers::pi;

void check_positive(const char* scheduler, const char* what, int64_t value) {
  LOCKSTEP_CHECK_KIND(Usage, value > 0, scheduler, ": ", what, " is ", value,
                      ", expected at least 1");
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer)
    : optimizer_(optimizer), base_lr_(optimizer.initial_lr()) {}

void LRScheduler::set_epoch_zero() {
  last_epoch_ = 0;
  optimizer_.set_lr(next_lr());
  set_momentum();
}

void LRScheduler::restart() {
  last_epoch_ = 0;
  optimizer_.set_lr(first_lr());
  set_momentum();
}

void LRScheduler::step() {
  if (optimizer_.num_steps() == 0 && !std::exchange(warned_, true)) {
    log::warn("the learning rate scheduler was stepped before the optimizer: the first rate of ",
              "the schedule is skipped; call optimizer.step() first");
  }
  ++last_epoch_;
  optimizer_.set_lr(next_lr());
  set_momentum();
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  check_positive("StepLR", "step_size", step_size);
  set_epoch_zero();
}

double StepLR::next_lr() const {
  return last_epoch_ == 0 || last_epoch_ % step_size_ != 0 ? lr() : lr() * gamma_;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  set_epoch_zero();
}

double MultiStepLR::factor(int64_t epoch) const {
  const auto times = std::count(milestones_.begin(), milestones_.end(), epoch);
  return std::pow(gamma_, static_cast<double>(times));
}

double MultiStepLR::next_lr() const { return lr() * factor(last_epoch_); }

double MultiStepLR::first_lr() const { return base_lr_ * factor(0); }

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
  set_epoch_zero();
}

double ExponentialLR::next_lr() const { return last_epoch_ == 0 ? lr() : lr() * gamma_; }

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LRScheduler(optimizer), factor_(factor), total_iters_(total_iters) {
  LOCKSTEP_CHECK_KIND(Usage, factor > 0.0 && factor <= 1.0, "ConstantLR: factor is ", factor,
                      ", expected above 0 and at most 1");
  set_epoch_zero();
}

double ConstantLR::next_lr() const {
  if (last_epoch_ == 0) return lr() * factor_;
  return last_epoch_ == total_iters_ ? lr() * (1.0 / factor_) : lr();
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   int64_t total_iters)
    : LRScheduler(optimizer),
      start_factor_(start_factor),
      end_factor_(end_factor),
      total_iters_(total_iters) {
  LOCKSTEP_CHECK_KIND(Usage, start_factor > 0.0 && start_factor <= 1.0,
                      "LinearLR: start_factor is ", start_factor,
                      ", expected above 0 and at most 1");
  LOCKSTEP_CHECK_KIND(Usage, end_factor >= 0.0 && end_factor <= 1.0, "LinearLR: end_factor is ",
                      end_factor, ", expected 0 to 1");
  set_epoch_zero();
}

double LinearLR::next_lr() const {
  if (last_epoch_ == 0) return lr() * start_factor_;
  if (last_epoch_ > total_iters_) return lr();
  const double rise = end_factor_ - start_factor_;
  const double previous = static_cast<double>(total_iters_) * start_factor_ +
                          static_cast<double>(last_epoch_ - 1) * rise;
  return lr() * (1.0 + rise / previous);
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  check_positive("CosineAnnealingLR", "t_max", t_max);
  set_epoch_zero();
}

double CosineAnnealingLR::next_lr() const {
  if (last_epoch_ == 0) return lr();
  const double period = static_cast<double>(t_max_);
  // At the bottom of the curve the recursion would divide by zero.
  if ((last_epoch_ - 1 - t_max_) % (2 * t_max_) == 0) {
    return lr() + (base_lr_ - eta_min_) * (1.0 - std::cos(pi / period)) / 2.0;
  }
  const auto height = [&](int64_t epoch) {
    return 1.0 + std::cos(pi * static_cast<double>(epoch) / period);
  };
  return height(last_epoch_) / height(last_epoch_ - 1) * (lr() - eta_min_) + eta_min_;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0,
                                                         int64_t t_mult, double eta_min)
    : LRScheduler(optimizer), t_0_(t_0), t_mult_(t_mult), eta_min_(eta_min) {
  check_positive("CosineAnnealingWarmRestarts", "t_0", t_0);
  check_positive("CosineAnnealingWarmRestarts", "t_mult", t_mult);
  set_epoch_zero();
}

double CosineAnnealingWarmRestarts::next_lr() const {
  int64_t within = last_epoch_;
  int64_t period = t_0_;
  if (t_mult_ == 1) within %= period;
  for (; within >= period; period *= t_mult_) within -= period;
  const double angle = pi * static_cast<double>(within) / static_cast<double>(period);
  return eta_min_ + (base_lr_ - eta_min_) * (1.0 + std::cos(angle)) / 2.0;
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : LRScheduler(optimizer), total_iters_(total_iters), power_(power) {
  check_positive("PolynomialLR", "total_iters", total_iters);
  set_epoch_zero();
}

double PolynomialLR::next_lr() const {
  if (last_epoch_ == 0 || last_epoch_ > total_iters_) return lr();
  const double total = static_cast<double>(total_iters_);
  const double left = 1.0 - static_cast<double>(last_epoch_) / total;
  const double left_before = 1.0 - static_cast<double>(last_epoch_ - 1) / total;
  return lr() * std::pow(left / left_before, power_);
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  set_epoch_zero();
}

}  // namespace lockstep::optim
