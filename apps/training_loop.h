// The loop of the documented script: zero_grad, forward, backward, step, and what is measured and
// reported around it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "apps/batch_source.h"
#include "apps/console.h"
#include "apps/evaluate.h"
#include "apps/json_log.h"
#include "apps/options.h"
#include "core/nn/layers.h"
#include "core/optim/optimizer.h"
#include "core/optim/scheduler.h"
#include "dist/distributed_data_parallel.h"

namespace lockstep::apps {

/// What the loop works with; everything outlives it.
struct TrainingParts {
  const TrainOptions& options;
  dist::DistributedDataParallel& model;
  optim::Optimizer& optimizer;
  optim::LRScheduler* scheduler;  ///< null: the learning rate stays
  bool schedule_per_step;         ///< else once an epoch
  BatchSource& source;
  const data::Dataset* test;  ///< null: nothing to evaluate on
  Console& console;
  JsonLog* log;  ///< on rank 0 with --json, else null
};

class TrainingLoop {
 public:
  explicit TrainingLoop(TrainingParts parts);

  /// All epochs, or as many steps as --max-steps allows.
  /// throws Error(BadData) naming rank, epoch and step when a loss is not finite
  void run();

  int64_t num_steps() const { return step_; }
  /// Sums over all steps, on this rank.
  const StepTimes& times() const { return times_; }

 private:
  struct EpochSums {
    double loss = 0;
    int64_t steps = 0;
    int64_t samples = 0;  ///< of this rank
    StepTimes times;
  };

  bool is_last(int64_t epoch) const;
  void run_epoch(int64_t epoch);
  /// One optimizer step over `micro_batches`; returns this rank's loss.
  double run_step(int64_t epoch, int64_t micro_batches, EpochSums& sums);
  double run_micro_batch(int64_t epoch, int64_t micro_batches, StepTimes& times, EpochSums& sums);
  void report_epoch(int64_t epoch, const EpochSums& sums, double seconds);
  void check_finite(double loss, int64_t epoch) const;
  /// value of every rank, in rank order; a collective call.
  std::vector<double> gather(double value);

  TrainingParts parts_;
  dist::ProcessGroup& group_;
  nn::CrossEntropyLoss criterion_;
  Tensor gathered_;  ///< [W] Float64
  Tensor mine_;      ///< [1] Float64
  int64_t step_ = 0;
  StepTimes times_;
};

}  // namespace lockstep::apps
