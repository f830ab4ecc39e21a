// Range and consistency checks, before anything is started.
#include "apps/options_check.h"

#include <cmath>
#include <initializer_list>
#include <string_view>

#include "apps/model_spec.h"
#include "apps/number_format.h"
#include "apps/schedule_spec.h"
#include "core/base/error.h"
#include "core/optim/optimizer.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kMaxRanks = 256;               // what the shm engine takes
constexpr double kMinSeconds = 0.001;            // clocks count milliseconds
constexpr double kMaxSeconds = 1e9;              // a deadline still fits into a clock
constexpr double kMinBucketMb = 1e-6;            // a byte
constexpr double kMaxBucketMb = 1e9;             // more than any memory
constexpr int64_t kMaxCount = int64_t{1} << 40;  // steps, epochs, samples: far from overflow

void check_range(const char* flag, int64_t value, int64_t low, int64_t high) {
  LOCKSTEP_CHECK_KIND(Usage, value >= low && value <= high, flag, " ", value,
                      ": expected a whole number from ", low, " to ", high);
}

void check_real(const char* flag, double value, bool zero_allowed) {
  LOCKSTEP_CHECK_KIND(Usage, std::isfinite(value) && (value > 0 || (zero_allowed && value == 0)),
                      flag, " ", python_float(value), ": expected a finite number ",
                      zero_allowed ? "of 0 or more" : "above 0");
}

void check_one_of(const char* flag, const std::string& value,
                  std::initializer_list<std::string_view> choices) {
  std::string list;
  for (const std::string_view choice : choices) {
    if (value == choice) return;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  LOCKSTEP_THROW(Usage, flag, " \"", value, "\": expected one of ", list);
}

void check_rank_options(const RankOptions& options) {
  check_range("--nproc", options.nproc, 0, kMaxRanks);
  check_range("--threads", options.threads, 0, kMaxRanks);
  check_one_of("--device", options.device, {"auto", "cpu", "cuda"});
  LOCKSTEP_CHECK_KIND(Usage, options.device != "cuda",
                      "--device cuda: this build has no CUDA; use --device cpu");
  check_real("--timeout", options.timeout, false);
  LOCKSTEP_CHECK_KIND(Usage, options.timeout >= kMinSeconds && options.timeout <= kMaxSeconds,
                      "--timeout ", python_float(options.timeout), ": expected seconds from ",
                      python_float(kMinSeconds), " to ", python_float(kMaxSeconds));
  const bool has_rank = options.rank >= 0;
  const bool has_world = options.world_size >= 0;
  check_range("--rank", options.rank, -1, kMaxRanks - 1);
  check_range("--local-rank", options.local_rank, -1, kMaxRanks - 1);
  LOCKSTEP_CHECK_KIND(Usage, has_rank == has_world, has_rank ? "--rank" : "--world-size",
                      " was given without ", has_rank ? "--world-size" : "--rank",
                      ": a hand-started rank needs both (to start all ranks here, use --nproc)");
  if (has_world) check_range("--world-size", options.world_size, 1, kMaxRanks);
  LOCKSTEP_CHECK_KIND(Usage, !has_rank || options.rank < options.world_size, "--rank ",
                      options.rank, " of --world-size ", options.world_size,
                      ": ranks are numbered from 0 to ", options.world_size - 1);
  LOCKSTEP_CHECK_KIND(Usage, !has_rank || options.nproc == 0, "--nproc ", options.nproc,
                      " together with --rank ", options.rank,
                      ": --nproc starts all ranks here, --rank makes this process one of them; "
                      "give one of the two");
}

void check_sgd(const TrainOptions& options) {
  check_real("--momentum", options.momentum, true);
  LOCKSTEP_CHECK_KIND(Usage, std::isfinite(options.dampening), "--dampening ",
                      python_float(options.dampening), ": expected a finite number");
  LOCKSTEP_CHECK_KIND(Usage, !options.nesterov || (options.momentum > 0 && options.dampening == 0),
                      "--nesterov needs --momentum above 0 and no --dampening, got --momentum ",
                      python_float(options.momentum), " --dampening ",
                      python_float(options.dampening));
}

void check_optimizer(TrainOptions& options) {
  check_one_of("--optim", options.optim, {"sgd", "adamw"});
  const bool sgd = options.optim == "sgd";
  options.lr = options.lr.value_or(sgd ? 0.01 : 0.001);
  options.weight_decay = options.weight_decay.value_or(sgd ? 0.0 : 0.01);
  check_real("--lr", *options.lr, true);
  check_real("--weight-decay", *options.weight_decay, true);
  check_real("--clip-grad-norm", options.clip_grad_norm, true);
  if (sgd) return check_sgd(options);
  LOCKSTEP_CHECK_KIND(
      Usage, options.momentum == 0 && options.dampening == 0 && !options.nesterov,
      "--momentum, --dampening and --nesterov are options of --optim sgd; --optim adamw has none");
}

/// A scheduler of a throw-away optimizer finds numbers that the schedule does not take.
void check_schedule(const TrainOptions& options) {
  constexpr int64_t kFewestSteps = 2;  // how many a run will have is not known here
  const ScheduleSpec spec = parse_schedule_spec(options.schedule, options.epochs);
  Tensor weight = zeros({1});
  weight.requires_grad_();
  optim::SGD optimizer({{"weight", weight}}, {.lr = *options.lr});
  try {
    make_scheduler(spec, optimizer, kFewestSteps);
  } catch (const Error& error) {
    LOCKSTEP_THROW(Usage, "--schedule \"", options.schedule, "\": ", error.what());
  }
}

/// The log is written while the other files are needed.
void check_files(const TrainOptions& options) {
  const std::string& log = options.json;
  if (log.empty()) return;
  const char* other = log == options.save ? "--save" : log == options.load ? "--load" : nullptr;
  LOCKSTEP_CHECK_KIND(Usage, other == nullptr, "--json and ", other, " both name ", log,
                      "; give each its own file");
}

}  // namespace

void check_train_options(TrainOptions& options) {
  check_rank_options(options.ranks);
  check_range("--seed", options.seed, 0, kMaxCount);
  check_range("--epochs", options.epochs, 0, kMaxCount);
  check_range("--max-steps", options.max_steps, -1, kMaxCount);
  check_range("--batch-size", options.batch_size, 1, int64_t{1} << 24);
  check_range("--accumulate", options.accumulate, 1, int64_t{1} << 20);
  check_range("--eval-every", options.eval_every, 0, kMaxCount);
  check_real("--bucket-cap-mb", options.bucket_cap_mb, true);
  LOCKSTEP_CHECK_KIND(
      Usage,
      options.bucket_cap_mb == 0 ||
          (options.bucket_cap_mb >= kMinBucketMb && options.bucket_cap_mb <= kMaxBucketMb),
      "--bucket-cap-mb ", python_float(options.bucket_cap_mb), ": expected MiB from ",
      python_float(kMinBucketMb), " to ", python_float(kMaxBucketMb), ", or 0 for the default");
  check_optimizer(options);
  if (!options.model.empty()) parse_model_spec(options.model);
  check_schedule(options);
  check_files(options);
}

void check_eval_options(EvalOptions& options) {
  check_rank_options(options.ranks);
  check_range("--batch-size", options.batch_size, 1, int64_t{1} << 24);
  check_one_of("--split", options.split, {"test", "train"});
  if (!options.model.empty()) parse_model_spec(options.model);
}

void check_bench_options(BenchOptions& options) {
  check_rank_options(options.ranks);
  LOCKSTEP_CHECK_KIND(Usage, options.ranks.rank < 0,
                      "bench --rank: the ranks of a benchmark are started here; use --nproc");
  check_real("--seconds", options.seconds, false);
  for (const std::string& what : options.what) {
    check_one_of("bench", what, {"allreduce", "step", "data", "linear", "startup"});
  }
}

}  // namespace lockstep::apps
