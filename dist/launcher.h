// The launcher: starts the ranks of one host as forks of this process, hosts their store, and sees
// to it that they end together - by themselves, after the first failure, or with the launcher.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dist/store.h"

namespace lockstep::dist {

/// What a started rank is told.
struct LaunchedRank {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  std::shared_ptr<Store> store;  ///< hosted by the launcher
};

struct LaunchOptions {
  int num_ranks = 1;
  /// After the first failure the other ranks have this long to report what they saw of it.
  Milliseconds report_grace{1000};
  /// Then they get SIGTERM, and SIGKILL when they still run after this.
  Milliseconds terminate_grace{500};
  /// How much of a failed rank's last output on stderr is kept.
  int last_lines = 20;
  /// Receives whole lines of the ranks' stderr as they come; empty: they go on to this process's
  /// stderr. (stdout is the ranks' own.)
  std::function<void(int rank, std::string_view line)> on_stderr;
};

struct LaunchResult {
  /// 0; the exit code of the rank that failed first; 128 + the signal that ended it; 128 + the
  /// signal that ended the launch.
  int exit_status = 0;
  int failed_rank = -1;    ///< -1: none failed
  int signal = 0;          ///< that ended the failed rank, or the launch
  std::string reason;      ///< "rank 1 of 4 (pid 77) was killed by signal 9 (SIGKILL)"; empty: none
  std::string last_lines;  ///< the failed rank's last output on stderr
};

/// Runs rank_main(rank) in num_ranks forks of this process and waits for all of them; its return
/// value is the rank's exit code. An Error that escapes it is printed on the rank's stderr and
/// becomes the exit code of its kind.
///
/// Call it from the main thread of a process without other threads: a fork copies only the calling
/// thread, and a parent-death signal fires when the *thread* that forked ends. While it runs,
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT (unless ignored) end the ranks and then the launch,
/// SIGTSTP stops all of them; no handler is installed, the signal mask and SIGCHLD's disposition
/// are restored. No rank survives the launcher, whatever ends it.
/// throws Error(Usage) for num_ranks < 1, Error(Io) when the system refuses a process or descriptor
LaunchResult launch(const LaunchOptions& options,
                    const std::function<int(const LaunchedRank&)>& rank_main);

/// "SIGKILL" for 9; "signal 99" for what has no name.
std::string signal_name(int signal);

/// The key under which the launcher's store says how rank r ended ("exited with code 3", "was
/// killed by signal 9 (SIGKILL)"), for the ranks that live on.
std::string exit_key(int rank);

/// The key that says which rank failed first, and how ("rank 1 exited with code 3").
std::string first_failure_key();

}  // namespace lockstep::dist
