// One rank as the launcher sees it: the process, the pipe of its stderr, and the pipe whose end
// tells it that the launcher is gone.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "dist/launcher.h"
#include "dist/unique_fd.h"

namespace lockstep::dist {

using StderrSink = std::function<void(int rank, std::string_view line)>;

class RankProcess {
 public:
  /// What the launcher's own process had before launch() changed it; a rank gets it back.
  struct Inherited {
    sigset_t signal_mask;
    struct sigaction child_action;
  };

  RankProcess() = default;

  /// Forks. In the child: arms its end with the launcher, calls `close_launcher_ends` (descriptors
  /// of the launcher and of the other ranks), runs rank_main and exits; never returns there.
  void start(const LaunchedRank& info, UniqueFd store_socket, const Inherited& inherited,
             const std::function<void()>& close_launcher_ends,
             const std::function<int(const LaunchedRank&)>& rank_main);

  /// In a sibling's fork.
  void close_launcher_ends();

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  int stderr_fd() const { return stderr_.get(); }

  /// True once the process has ended: then it is reaped, whatever it started is killed, and
  /// `status` is that of waitpid.
  bool reap(int& status);

  /// To the rank and to what it started. Nothing when it has ended.
  void signal(int number) const;

  /// Hands on all whole lines that are there; keeps the last ones. Closes the pipe at its end.
  void read_stderr(int rank, int keep_lines, const StderrSink& sink);
  /// The unfinished line too: the process has ended.
  void finish_stderr(int rank, int keep_lines, const StderrSink& sink);
  std::string last_lines() const;

 private:
  void hand_on(int rank, int keep_lines, const StderrSink& sink, std::string_view line);

  pid_t pid_ = 0;
  UniqueFd stderr_;      ///< read end
  UniqueFd death_pipe_;  ///< write end, never written: its closing is the message
  std::string partial_;  ///< a line that has not ended yet
  std::deque<std::string> tail_;
};

}  // namespace lockstep::dist
