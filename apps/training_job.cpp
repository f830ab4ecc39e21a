// From options to objects.
#include "apps/training_job.h"

#include <algorithm>

#include "apps/schedule_spec.h"
#include "core/random.h"

namespace lockstep::apps {
namespace {

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 const std::vector<nn::NamedTensor>& parameters) {
  if (options.optim == "adamw") {
    return std::make_unique<optim::AdamW>(
        parameters, optim::AdamWOptions{.lr = *options.lr, .weight_decay = *options.weight_decay});
  }
  return std::make_unique<optim::SGD>(parameters,
                                      optim::SGDOptions{.lr = *options.lr,
                                                        .momentum = options.momentum,
                                                        .dampening = options.dampening,
                                                        .weight_decay = *options.weight_decay,
                                                        .nesterov = options.nesterov});
}

std::unique_ptr<BatchSource> make_source(const TrainingJob& job, const dist::ProcessGroup& group) {
  const TrainOptions& options = job.options;
  if (!job.data.split) {
    return make_synthetic_source(options.batch_size, job.model.inputs(), job.model.outputs(),
                                 options.accumulate, group.device());
  }
  return make_dataset_source(job.data.split->train, options.batch_size, group.rank(),
                             group.world_size(), options.seed, group.device());
}

/// Optimizer steps of the whole run.
int64_t total_steps(const TrainOptions& options, const BatchSource& source) {
  const int64_t batches = source.batches_per_epoch();
  const int64_t steps = options.epochs * ((batches + options.accumulate - 1) / options.accumulate);
  return options.max_steps >= 0 ? std::min(steps, options.max_steps) : steps;
}

}  // namespace

RankTraining::RankTraining(const TrainingJob& job,
                           const std::shared_ptr<dist::ProcessGroup>& group) {
  const TrainOptions& options = job.options;
  manual_seed(static_cast<uint64_t>(options.seed) + static_cast<uint64_t>(group->rank()));
  model_ = make_model(job.model);
  if (!job.initial.empty()) model_->load_state_dict(job.initial);
  model_->to(group->device());
  ddp_ = std::make_unique<dist::DistributedDataParallel>(
      *model_, group, dist::DdpOptions{.bucket_cap_mb = options.bucket_cap_mb});
  optimizer_ = make_optimizer(options, ddp_->named_parameters());
  source_ = make_source(job, *group);
  const ScheduleSpec schedule = parse_schedule_spec(options.schedule, options.epochs);
  scheduler_ =
      make_scheduler(schedule, *optimizer_, std::max<int64_t>(1, total_steps(options, *source_)));
  schedule_per_step_ = schedule.is_per_step();
}

TrainingParts RankTraining::parts(const TrainingJob& job, Console& console, JsonLog* log) {
  return {.options = job.options,
          .model = *ddp_,
          .optimizer = *optimizer_,
          .scheduler = scheduler_.get(),
          .schedule_per_step = schedule_per_step_,
          .source = *source_,
          .test = job.data.split ? &job.data.split->test : nullptr,
          .console = console,
          .log = log};
}

}  // namespace lockstep::apps
