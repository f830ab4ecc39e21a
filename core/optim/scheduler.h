// Learning rate schedules under PyTorch's names. Like there, most are *chainable*: each step
// multiplies the optimizer's current rate, so that several schedulers of one optimizer combine and
// a rate that was set by hand is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/optim/optimizer.h"

namespace lockstep::optim {

/// Base: counts epochs (or whatever the caller steps once for). The optimizer must outlive it.
/// Constructing one sets the rate of epoch 0.
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Moves on to the next epoch and sets its rate. Call it after optimizer.step().
  virtual void step();
  int64_t last_epoch() const { return last_epoch_; }

  /// Continues at this epoch without touching the optimizer, whose own state holds the rate.
  virtual void restore(int64_t last_epoch) { last_epoch_ = last_epoch; }

 protected:
  explicit LRScheduler(Optimizer& optimizer);

  /// The rate of last_epoch(), from the current one.
  virtual double next_lr() const = 0;
  /// The rate of epoch 0 whatever happened before: where SequentialLR starts a schedule.
  virtual double first_lr() const { return base_lr_; }
  /// OneCycleLR moves the momentum too.
  virtual void set_momentum() const {}

  void set_epoch_zero();
  double lr() const { return optimizer_.lr(); }

  Optimizer& optimizer_;
  double base_lr_;
  int64_t last_epoch_ = 0;

 private:
  friend class SequentialLR;
  virtual void restart();  ///< to epoch 0, at first_lr()

  bool warned_ = false;
};

/// Times gamma every step_size epochs. source: torch.optim.lr_scheduler.StepLR, as all here
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);

 protected:
  double next_lr() const override;

 private:
  int64_t step_size_;
  double gamma_;
};

/// Times gamma at each milestone (an epoch may be listed twice).
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);

 protected:
  double next_lr() const override;
  double first_lr() const override;

 private:
  double factor(int64_t epoch) const;
  std::vector<int64_t> milestones_;
  double gamma_;
};

/// Times gamma every epoch.
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 protected:
  double next_lr() const override;

 private:
  double gamma_;
};

/// base * factor for the first total_iters epochs, base after.
class ConstantLR : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);

 protected:
  double next_lr() const override;
  double first_lr() const override { return base_lr_ * factor_; }

 private:
  double factor_;
  int64_t total_iters_;
};

/// From base * start_factor to base * end_factor in equal steps over total_iters epochs: a warm-up.
class LinearLR : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1.0,
                    int64_t total_iters = 5);

 protected:
  double next_lr() const override;
  double first_lr() const override { return base_lr_ * start_factor_; }

 private:
  double start_factor_;
  double end_factor_;
  int64_t total_iters_;
};

/// eta_min + (base - eta_min) (1 + cos(pi t / t_max)) / 2; past t_max it rises again.
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0.0);

 protected:
  double next_lr() const override;

 private:
  int64_t t_max_;
  double eta_min_;
};

/// Cosine from base to eta_min, again and again: periods of t_0, t_0 * t_mult, ... epochs.
class CosineAnnealingWarmRestarts : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0, int64_t t_mult = 1,
                              double eta_min = 0.0);

 protected:
  double next_lr() const override;

 private:
  int64_t t_0_;
  int64_t t_mult_;
  double eta_min_;
};

/// base * (1 - t / total_iters)^power, 0 from total_iters on.
class PolynomialLR : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1.0);

 protected:
  double next_lr() const override;

 private:
  int64_t total_iters_;
  double power_;
};

/// base * factor(epoch).
class LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t epoch)> factor);

 protected:
  double next_lr() const override { return base_lr_ * factor_(last_epoch_); }
  double first_lr() const override { return base_lr_ * factor_(0); }

 private:
  std::function<double(int64_t)> factor_;
};

enum class AnnealStrategy : uint8_t { Cosine, Linear };

struct OneCycleOptions {
  double max_lr = 0.0;
  int64_t total_steps = 0;  ///< stepping further is an Error
  double pct_start = 0.3;   ///< the part of the cycle that rises
  AnnealStrategy anneal_strategy = AnnealStrategy::Cosine;
  bool cycle_momentum = true;  ///< the momentum falls while the rate rises, and back
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25.0;       ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  ///< the last one is that / final_div_factor
};

/// Up to max_lr and down again in one cycle; stepped once a batch.
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleOptions options);
  void step() override;

 protected:
  double next_lr() const override;
  double first_lr() const override { return next_lr(); }
  void set_momentum() const override;

 private:
  double interpolate(double first, double peak, double last) const;
  OneCycleOptions options_;
};

/// One schedule after the other: schedule i + 1 starts, at its epoch 0, when the count reaches
/// milestones[i]. All of them were constructed on the same optimizer.
class SequentialLR : public LRScheduler {
 public:
  /// Throws Error(Usage) unless there is one milestone less than schedulers, increasing.
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
               std::vector<int64_t> milestones);
  void step() override;
  void restore(int64_t last_epoch) override;

 protected:
  double next_lr() const override { return lr(); }

 private:
  void restart() override;
  size_t active(int64_t epoch) const;
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
  std::vector<int64_t> milestones_;
};

}  // namespace lockstep::optim
