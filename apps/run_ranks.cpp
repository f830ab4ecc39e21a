// The bridge between the command line and dist/launcher.h.
#include "apps/run_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

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

constexpr std::string_view kErrorMark = "lockstep: ";
constexpr std::string_view kWarningMark = "lockstep: warning: ";

/// "[rank 1/4 host] " before a message that does not say it, when there are several ranks.
std::string with_rank(const std::string& message, int world_size) {
  const bool says_it = world_size == 1 || message.find("[rank ") != std::string::npos;
  return says_it ? message : log::prefix() + message;
}

/// Calls `body`; an exception becomes a line on standard error and the exit code of its kind.
int run_guarded(int world_size, const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    print_error(with_rank(error.what(), world_size));
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    print_error(
        with_rank("out of memory; use a smaller model, --batch-size or fewer ranks", world_size));
  } catch (const std::exception& error) {
    print_error(with_rank(concat("internal error: ", error.what()), world_size));
  }
  return exit_code(ErrorKind::Internal);
}

int run_hand_started(const RankOptions& options, const RankBody& body) {
  dist::ProcessGroupOptions group = group_options(options);
  group.rank = static_cast<int>(options.rank);
  group.world_size = static_cast<int>(options.world_size);
  group.init_method = options.init_method;
  const int64_t all =
      options.world_size > 0 ? options.world_size : env::get_int("WORLD_SIZE").value_or(1);
  const int64_t here = env::get_int("LOCAL_WORLD_SIZE").value_or(all);
  share_cores(options, static_cast<int>(std::max<int64_t>(here, 1)));
  const int world_size = static_cast<int>(all);
  return run_guarded(world_size, [&] { run_rank(group, body); });
}

// When one rank fails, the others fail too, because they lost it. The user is shown the cause, in
// one line; what the others saw only when the rank that failed left no message (a signal).
class FailureReport {
 public:
  explicit FailureReport(int ranks) : errors_(static_cast<size_t>(ranks)) {}

  /// A whole line of a rank's standard error: its final message is kept, all else is passed on.
  void receive(int rank, std::string_view line) {
    const bool is_error = line.starts_with(kErrorMark) && !line.starts_with(kWarningMark);
    if (is_error) {
      errors_[static_cast<size_t>(rank)] = line;
    } else {
      write_all(STDERR_FILENO, line);
    }
  }

  void print(const dist::LaunchResult& result) const {
    if (result.exit_status == 0) return;
    if (result.failed_rank >= 0) {
      const std::string& own = errors_[static_cast<size_t>(result.failed_rank)];
      if (!own.empty()) {
        write_all(STDERR_FILENO, own);
        return;
      }
    }
    print_error(result.reason);
    for (const std::string& seen : errors_) write_all(STDERR_FILENO, seen);
  }

 private:
  std::vector<std::string> errors_;  ///< one a rank, with its newline
};

}  // namespace

void check_environment(const RankOptions& options) {
  const auto check = [](const char* flag, int64_t value, const char* variable) {
    const auto set = env::get_int(variable);
    LOCKSTEP_CHECK_KIND(Usage, value < 0 || !set || *set == value, flag, " ", value, ", but ",
                        variable, "=", *set, " in the environment; drop the flag or unset the ",
                        "variable");
  };
  check("--rank", options.rank, "RANK");
  check("--world-size", options.world_size, "WORLD_SIZE");
  check("--local-rank", options.local_rank, "LOCAL_RANK");
  LOCKSTEP_CHECK_KIND(Usage, options.nproc == 0 || !env::get("RANK"), "--nproc ", options.nproc,
                      " starts ranks here, but RANK=", *env::get("RANK"),
                      " in the environment makes this process one of them; drop the flag or unset "
                      "RANK");
  if (is_one_of_many(options)) return;
  const auto rank = env::get("RANK");
  const auto world_size = env::get("WORLD_SIZE");
  LOCKSTEP_CHECK_KIND(Usage, options.nproc > 0 || rank.has_value() == world_size.has_value(),
                      rank ? "RANK=" : "WORLD_SIZE=", rank ? *rank : *world_size,
                      " in the environment without ", rank ? "WORLD_SIZE" : "RANK",
                      ": a hand-started rank needs both; set it, or unset the other");
  LOCKSTEP_CHECK_KIND(Usage, options.local_rank < 0 && options.init_method.empty(),
                      options.local_rank < 0 ? "--init-method" : "--local-rank",
                      " is for a hand-started rank: give --rank and --world-size too, or drop it");
}

bool is_one_of_many(const RankOptions& options) {
  if (options.rank >= 0) return true;
  return options.nproc == 0 && env::get("RANK") && env::get("WORLD_SIZE");
}

int num_local_ranks(const RankOptions& options) {
  return options.nproc > 0 ? static_cast<int>(options.nproc) : kDefaultCpuRanks;
}

int run_ranks(const RankOptions& options, const RankBody& body) {
  check_environment(options);
  if (is_one_of_many(options)) return run_hand_started(options, body);
  const int ranks = num_local_ranks(options);
  FailureReport failures(ranks);
  dist::LaunchOptions launch{.num_ranks = ranks};
  launch.on_stderr = [&](int rank, std::string_view line) { failures.receive(rank, line); };
  const auto result = dist::launch(launch, [&](const dist::LaunchedRank& me) {
    return run_guarded(ranks, [&] {
      share_cores(options, ranks);
      dist::ProcessGroupOptions group = group_options(options);
      group.rank = me.rank;
      group.world_size = me.world_size;
      group.store = me.store;
      run_rank(group, body);
    });
  });
  failures.print(result);
  return result.exit_status;
}

void print_error(const std::string& message) {
  std::string text = "lockstep: " + message + "\n";
  // Names from files and flags may hold what would move the cursor of a terminal.
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < ' ' && c != '\n') || code == 0x7f) c = '?';
  }
  write_all(STDERR_FILENO, text);
}

void log_to_stderr() {
  log::set_sink([](log::Level level, std::string_view message) {
    const char* kind = level == log::Level::Warning ? "warning: " : "";
    write_all(STDERR_FILENO, "lockstep: " + std::string(kind) + std::string(message) + "\n");
  });
}

}  // namespace lockstep::apps
