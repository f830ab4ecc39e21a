// `lockstep train`: everything that can be wrong is found before a rank starts; then each rank does
// what the documented script does, in its order.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "apps/batch_source.h"
#include "apps/commands.h"
#include "apps/console.h"
#include "apps/dataset_spec.h"
#include "apps/json_log.h"
#include "apps/model_spec.h"
#include "apps/number_format.h"
#include "apps/run_ranks.h"
#include "apps/same_options.h"
#include "apps/schedule_spec.h"
#include "apps/stopwatch.h"
#include "apps/training_loop.h"
#include "core/base/cpu.h"
#include "core/base/error.h"
#include "core/base/version.h"
#include "core/io/safetensors.h"
#include "core/random.h"
#include "kernels/gemm.h"

namespace lockstep::apps {
namespace {

/// What all ranks share; a forked rank inherits it without copying.
struct TrainingJob {
  TrainOptions options;
  LoadedData data;
  ModelSpec model;
  std::vector<nn::NamedTensor> initial;  ///< of --load; empty without
};

/// Throws Error(Io) unless `path` can be written; leaves no trace when it did not exist.
void check_can_write(const char* flag, const std::string& path) {
  if (path.empty()) return;
  const bool existed = ::access(path.c_str(), F_OK) == 0;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  LOCKSTEP_CHECK_KIND(Io, file >= 0, flag, " ", path, ": cannot write: ", std::strerror(errno));
  ::close(file);
  if (!existed) ::unlink(path.c_str());
}

TrainingJob prepare(const TrainOptions& options) {
  TrainingJob job{.options = options};
  check_can_write("--save", options.save);
  check_can_write("--json", options.json);
  if (!options.load.empty()) job.initial = io::load_safetensors(options.load);
  job.data = load_data(options.data, options.model);
  job.model = model_for(options.model, job.data);
  if (!job.initial.empty()) check_weights(job.initial, options.load, job.model);
  return job;
}

std::vector<RunFact> facts_of(const TrainOptions& options, const ModelSpec& model) {
  return {{"model", model.text()},
          {"data", options.data},
          {"optim", options.optim},
          {"epochs", std::to_string(options.epochs)},
          {"max-steps", std::to_string(options.max_steps)},
          {"batch-size", std::to_string(options.batch_size)},
          {"accumulate", std::to_string(options.accumulate)},
          {"seed", std::to_string(options.seed)},
          {"lr", python_float(*options.lr)},
          {"momentum", python_float(options.momentum)},
          {"dampening", python_float(options.dampening)},
          {"nesterov", options.nesterov ? "true" : "false"},
          {"weight-decay", python_float(*options.weight_decay)},
          {"schedule", options.schedule},
          {"clip-grad-norm", python_float(options.clip_grad_norm)},
          {"bucket-cap-mb", python_float(options.bucket_cap_mb)},
          {"eval-every", std::to_string(options.eval_every)},
          {"json", options.json.empty() ? "no" : "yes"}};
}

RunRecord record_of(const TrainingJob& job, const dist::ProcessGroup& group) {
  return {.world_size = group.world_size(),
          .engine = group.backend(),
          .device = concat(group.device()),
          .cpu_path = cpu_capability_name(),
          .blas = kernels::cpu::blas_name(),
          .threads = kernels::cpu::blas_num_threads(),
          .options = facts_of(job.options, job.model)};
}

/// The run in one line: version, model and data, ranks, engine, seed, CPU path, BLAS.
std::string headline(const TrainingJob& job, const RunRecord& run) {
  return concat("lockstep ", LOCKSTEP_VERSION_STRING, ": ", job.model.text(), " on ",
                job.options.data, ", ", run.world_size,
                run.world_size == 1 ? " rank (" : " ranks (", run.engine, ", ", run.device,
                "), seed ", job.options.seed, ", ", run.cpu_path, ", ", run.blas, ", ", run.threads,
                run.threads == 1 ? " thread" : " threads", " a rank");
}

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

void train_rank(const TrainingJob& job, const std::shared_ptr<dist::ProcessGroup>& group) {
  const Stopwatch watch;
  const TrainOptions& options = job.options;
  const bool reports = group->rank() == 0;
  const RunRecord run = record_of(job, *group);
  if (is_one_of_many(options.ranks)) check_same_options(*group, run.options);
  Console console(reports && !options.quiet);
  console.line(headline(job, run));

  manual_seed(static_cast<uint64_t>(options.seed) + static_cast<uint64_t>(group->rank()));
  const auto model = make_model(job.model);
  if (!job.initial.empty()) model->load_state_dict(job.initial);
  model->to(group->device());
  dist::DistributedDataParallel ddp(*model, group, {.bucket_cap_mb = options.bucket_cap_mb});
  const auto optimizer = make_optimizer(options, ddp.named_parameters());
  const auto source = make_source(job, *group);
  const ScheduleSpec schedule = parse_schedule_spec(options.schedule, options.epochs);
  const auto scheduler = make_scheduler(schedule, *optimizer, total_steps(options, *source));
  std::unique_ptr<JsonLog> log;
  if (reports && !options.json.empty()) {
    log = std::make_unique<JsonLog>(options.json, run);
  }

  TrainingLoop loop({options, ddp, *optimizer, scheduler.get(), schedule.is_per_step(), *source,
                     job.data.split ? &job.data.split->test : nullptr, console, log.get()});
  loop.run();
  if (!reports) return;
  if (log) log->finish(loop.num_steps(), watch.seconds());
  if (options.save.empty()) return;
  group->set_phase({"saving", loop.num_steps()});
  io::save_safetensors(options.save, model->state_dict());
  console.line("Saved the weights to " + options.save);
}

}  // namespace

int run_train(const TrainOptions& options) {
  const TrainingJob job = prepare(options);
  return run_ranks(options.ranks, [&](const auto& group) { train_rank(job, group); });
}

}  // namespace lockstep::apps
