// What a rank trains with, made in the order of the documented script, so that the same random
// numbers go to the same places.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/dataset_spec.h"
#include "apps/model_spec.h"
#include "apps/options.h"
#include "apps/training_loop.h"

namespace lockstep::apps {

/// What all ranks share; a forked rank inherits it without copying.
struct TrainingJob {
  TrainOptions options;
  LoadedData data;
  ModelSpec model;
  std::vector<nn::NamedTensor> initial;  ///< weights to start from; empty: random ones
};

/// One rank's model, optimizer, schedule and data.
class RankTraining {
 public:
  /// manual_seed(seed + rank); model; DDP; optimizer. A collective call. `job` outlives this.
  RankTraining(const TrainingJob& job, const std::shared_ptr<dist::ProcessGroup>& group);

  nn::Module& model() { return *model_; }
  TrainingParts parts(const TrainingJob& job, Console& console, JsonLog* log);

 private:
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<dist::DistributedDataParallel> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<optim::LRScheduler> scheduler_;
  bool schedule_per_step_ = false;
};

}  // namespace lockstep::apps
