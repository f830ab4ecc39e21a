// `lockstep train`: everything that can be wrong is found before a rank starts; then each rank
// trains, and rank 0 reports.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/json_log.h"
#include "apps/number_format.h"
#include "apps/run_ranks.h"
#include "apps/same_options.h"
#include "apps/stopwatch.h"
#include "apps/training_job.h"
#include "core/base/cpu.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/version.h"
#include "core/io/safetensors.h"
#include "kernels/gemm.h"

namespace lockstep::apps {
namespace {

/// Throws Error(Io) unless `path` can be written. Makes no file, since a run that is killed right
/// here would leave it, and opens none, since that would wait for the reader of a pipe.
void check_can_write(const char* flag, const std::string& path, bool may_be_device) {
  if (path.empty()) return;
  struct stat status {};
  int error = ::stat(path.c_str(), &status) == 0 ? 0 : errno;
  if (error == 0) {
    const bool is_folder = S_ISDIR(status.st_mode);
    LOCKSTEP_CHECK_KIND(Io, may_be_device || is_folder || S_ISREG(status.st_mode), flag, " ", path,
                        ": it exists and is not a regular file; choose another path");
    const bool writable = ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
    error = is_folder ? EISDIR : writable ? 0 : errno;
  } else if (error == ENOENT) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    error = ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
  }
  LOCKSTEP_CHECK_KIND(Io, error == 0, flag, " ", path, ": cannot write: ", std::strerror(error));
}

TrainingJob prepare(const TrainOptions& options) {
  TrainingJob job{.options = options};
  check_can_write("--save", options.save, false);
  check_can_write("--json", options.json, true);
  if (!options.load.empty()) {
    job.initial = io::load_safetensors(options.load);
    LOCKSTEP_CHECK_KIND(BadData, !job.initial.empty(), "--load ", options.load,
                        ": the file holds no tensors; give one that --save wrote");
  }
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

/// What all ranks must agree on: the options, and how much data each one found.
std::vector<RunFact> shared_facts(const TrainingJob& job, const RunRecord& run) {
  std::vector<RunFact> facts = run.options;
  if (job.data.split) {
    facts.push_back({"data", concat(job.options.data, " of ", job.data.split->train.size(), " + ",
                                    job.data.split->test.size(), " samples")});
  }
  return facts;
}

/// The run in one line: version, model and data, ranks, engine, seed, CPU path, BLAS.
std::string headline(const TrainingJob& job, const RunRecord& run) {
  return concat("lockstep ", LOCKSTEP_VERSION_STRING, ": ", job.model.text(), " on ",
                job.options.data, ", ", run.world_size,
                run.world_size == 1 ? " rank (" : " ranks (", run.engine, ", ", run.device,
                "), seed ", job.options.seed, ", ", run.cpu_path, ", ", run.blas, ", ", run.threads,
                run.threads == 1 ? " thread" : " threads", " a rank");
}

void train_rank(const TrainingJob& job, const std::shared_ptr<dist::ProcessGroup>& group) {
  const Stopwatch watch;
  const TrainOptions& options = job.options;
  const bool reports = group->rank() == 0;
  const RunRecord run = record_of(job, *group);
  if (is_one_of_many(options.ranks)) check_same_options(*group, shared_facts(job, run));
  Console console(reports && !options.quiet);
  console.line(headline(job, run));

  RankTraining training(job, group);
  std::unique_ptr<JsonLog> log;
  if (reports && !options.json.empty()) {
    log = std::make_unique<JsonLog>(options.json, run);
  }

  TrainingLoop loop(training.parts(job, console, log.get()));
  loop.run();
  if (!reports) return;
  if (log) log->finish(loop.num_steps(), watch.seconds());
  if (options.save.empty()) return;
  group->set_phase({"saving", loop.num_steps()});
  fault_point("saving", group->rank());
  io::save_safetensors(options.save, training.model().state_dict());
  console.line("Saved the weights to " + options.save);
}

}  // namespace

int run_train(const TrainOptions& options) {
  const TrainingJob job = prepare(options);
  return run_ranks(options.ranks, [&](const auto& group) { train_rank(job, group); });
}

}  // namespace lockstep::apps
