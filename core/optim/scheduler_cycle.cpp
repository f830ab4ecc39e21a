// The two schedules that are more than a formula: OneCycleLR, which moves the momentum against the
// rate, and SequentialLR, which runs others one after the other.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/optim/scheduler.h"

namespace lockstep::optim {
namespace {

double anneal(AnnealStrategy strategy, double from, double to, double part) {
  if (strategy == AnnealStrategy::Linear) return (to - from) * part + from;
  return to + (from - to) / 2.0 * (std::cos(std::numbers::pi * part) + 1.0);
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleOptions options)
    : LRScheduler(optimizer), options_(options) {
  LOCKSTEP_CHECK_KIND(Usage, options.max_lr > 0.0, "OneCycleLR: max_lr is ", options.max_lr,
                      ", expected above 0");
  LOCKSTEP_CHECK_KIND(Usage, options.total_steps > 1, "OneCycleLR: total_steps is ",
                      options.total_steps, ", expected at least 2");
  LOCKSTEP_CHECK_KIND(Usage, options.pct_start >= 0.0 && options.pct_start <= 1.0,
                      "OneCycleLR: pct_start is ", options.pct_start, ", expected 0 to 1");
  base_lr_ = options.max_lr / options.div_factor;
  optimizer.set_initial_lr(base_lr_);
  set_epoch_zero();
}

/// first to peak in the rising part, then peak to last.
double OneCycleLR::interpolate(double first, double peak, double last) const {
  const double total = static_cast<double>(options_.total_steps);
  const double top = options_.pct_start * total - 1.0;
  const double now = static_cast<double>(last_epoch_);
  if (now <= top && top > 0.0) {
    return anneal(options_.anneal_strategy, first, peak, now / top);
  }
  const double part = (now - top) / (total - 1.0 - top);
  return anneal(options_.anneal_strategy, peak, last, part);
}

double OneCycleLR::next_lr() const {
  return interpolate(base_lr_, options_.max_lr, base_lr_ / options_.final_div_factor);
}

void OneCycleLR::set_momentum() const {
  if (!options_.cycle_momentum) return;
  optimizer_.set_momentum(
      interpolate(options_.max_momentum, options_.base_momentum, options_.max_momentum));
}

void OneCycleLR::step() {
  LOCKSTEP_CHECK_KIND(Usage, last_epoch_ + 1 <= options_.total_steps, "OneCycleLR: step ",
                      last_epoch_ + 1, " is beyond total_steps ", options_.total_steps,
                      "; construct it with the number of batches of the whole run");
  LRScheduler::step();
}

SequentialLR::SequentialLR(Optimizer& optimizer,
                           std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  LOCKSTEP_CHECK_KIND(Usage, !schedulers_.empty() && milestones_.size() + 1 == schedulers_.size(),
                      "SequentialLR: ", schedulers_.size(), " schedulers need one milestone less, ",
                      "got ", milestones_.size());
  LOCKSTEP_CHECK_KIND(Usage, std::is_sorted(milestones_.begin(), milestones_.end()),
                      "SequentialLR: milestones must increase");
  for (const auto& scheduler : schedulers_) {
    LOCKSTEP_CHECK_KIND(Usage, scheduler != nullptr && &scheduler->optimizer_ == &optimizer,
                        "SequentialLR: every scheduler must be on the same optimizer");
  }
  // Each of them changed the rate when it was constructed: only the first one's counts.
  schedulers_.front()->restart();
}

void SequentialLR::restart() {
  last_epoch_ = 0;
  schedulers_.front()->restart();
}

size_t SequentialLR::active(int64_t epoch) const {
  const auto after = std::upper_bound(milestones_.begin(), milestones_.end(), epoch);
  return static_cast<size_t>(after - milestones_.begin());
}

void SequentialLR::step() {
  ++last_epoch_;
  const size_t i = active(last_epoch_);
  if (i > 0 && milestones_[i - 1] == last_epoch_) {
    schedulers_[i]->restart();
  } else {
    schedulers_[i]->step();
  }
}

void SequentialLR::restore(int64_t last_epoch) {
  last_epoch_ = last_epoch;
  const size_t i = active(last_epoch);
  schedulers_[i]->restore(i == 0 ? last_epoch : last_epoch - milestones_[i - 1]);
}

}  // namespace lockstep::optim
