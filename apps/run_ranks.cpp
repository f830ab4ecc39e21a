// The bridge between the command line and dist/launcher.h.
#include "apps/run_ranks.h"

#include <unistd.h>

#include <cmath>
#include <string>
#include <string_view>

#include "apps/console.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "dist/available_cores.h"
#include "dist/launcher.h"
#include "kernels/gemm.h"

namespace lockstep::apps {
namespace {

constexpr int kDefaultCpuRanks = 2;

/// The ranks share the cores; more threads than cores would only wait for each other.
void share_cores(const RankOptions& options, int ranks_here) {
  const int share = dist::cores_per_rank(ranks_here);
  kernels::cpu::blas_set_num_threads(options.threads > 0 ? static_cast<int>(options.threads)
                                                         : share);
}

dist::ProcessGroupOptions group_options(const RankOptions& options) {
  dist::ProcessGroupOptions group;
  group.timeout = dist::Milliseconds(std::llround(options.timeout * 1000));
  return group;
}

/// Joins the group and runs the body; when it throws, the other ranks learn the reason.
void run_rank(const dist::ProcessGroupOptions& options, const RankBody& body) {
  const auto group = dist::init_process_group(options);
  try {
    body(group);
  } catch (const std::exception& error) {
    group->abort(error.what());
    throw;
  }
}

int run_hand_started(const RankOptions& options, const RankBody& body) {
  share_cores(options, static_cast<int>(env::get_int("LOCAL_WORLD_SIZE").value_or(1)));
  dist::ProcessGroupOptions group = group_options(options);
  group.rank = static_cast<int>(options.rank);
  group.world_size = static_cast<int>(options.world_size);
  group.init_method = options.init_method;
  run_rank(group, body);
  return 0;
}

void report_failure(const dist::LaunchResult& result) {
  if (!result.reason.empty()) print_error(result.reason);
}

}  // namespace

bool is_one_of_many(const RankOptions& options) {
  if (options.rank >= 0) return true;
  return options.nproc == 0 && env::get("RANK") && env::get("WORLD_SIZE");
}

int num_local_ranks(const RankOptions& options) {
  return options.nproc > 0 ? static_cast<int>(options.nproc) : kDefaultCpuRanks;
}

int run_ranks(const RankOptions& options, const RankBody& body) {
  if (is_one_of_many(options)) return run_hand_started(options, body);
  const int ranks = num_local_ranks(options);
  const auto result = dist::launch({.num_ranks = ranks}, [&](const dist::LaunchedRank& me) {
    share_cores(options, ranks);
    dist::ProcessGroupOptions group = group_options(options);
    group.rank = me.rank;
    group.world_size = me.world_size;
    group.store = me.store;
    run_rank(group, body);
    return 0;
  });
  report_failure(result);
  return result.exit_status;
}

void print_error(const std::string& message) {
  write_all(STDERR_FILENO, "lockstep: " + message + "\n");
}

void log_to_stderr() {
  log::set_sink([](log::Level level, std::string_view message) {
    const char* kind = level == log::Level::Warning ? "warning: " : "";
    write_all(STDERR_FILENO, "lockstep: " + std::string(kind) + std::string(message) + "\n");
  });
}

}  // namespace lockstep::apps
