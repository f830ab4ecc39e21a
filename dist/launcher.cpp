// The launcher's loop: one thread, one poll over signals, the ranks' stderr and their store, and a
// small state machine that ends the job in bounded time.
#include "dist/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fault.h"
#include "dist/launcher_process.h"
#include "dist/launcher_store.h"

namespace lockstep::dist {
namespace {

using Clock = std::chrono::steady_clock;

/// How long this process's stderr may refuse a line before it is dropped: whoever reads it must
/// not be able to keep the launcher from its signals.
constexpr int kStderrPatienceMs = 200;

constexpr const char* kExitKeys = "launcher/exit/";

void write_stderr(int /*rank*/, std::string_view line) {
  while (!line.empty()) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, kStderrPatienceMs) == 0) return;
    const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    line.remove_prefix(static_cast<size_t>(n));
  }
}

/// Blocks the signals that the launch answers, to be read from a descriptor; gives the mask back.
class SignalScope {
 public:
  SignalScope() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) {
      struct sigaction current {};
      ::sigaction(number, nullptr, &current);
      const bool ignored =
          (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_IGN;  // nohup, "&"
      if (!ignored) sigaddset(&set, number);
    }
    sigaddset(&set, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &set, &inherited_.signal_mask);
    // With SIGCHLD ignored, the kernel would throw exit statuses away.
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, &inherited_.child_action);
    fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_.valid()) {
      const int error = errno;
      restore();
      LOCKSTEP_THROW(Io, "launch: no descriptor for signals: ", std::strerror(error));
    }
  }
  ~SignalScope() { restore(); }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  const RankProcess::Inherited& inherited() const { return inherited_; }
  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  /// The next signal that has come, or 0.
  int next() const {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  void restore() {
    ::sigaction(SIGCHLD, &inherited_.child_action, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &inherited_.signal_mask, nullptr);
  }

  RankProcess::Inherited inherited_{};
  UniqueFd fd_;
};

// Note [How a launch ends]
// Running: all ranks live. The first failure leads to Reporting: the others find out by themselves
// whom they lost, and have a moment to say so. Then Terminating: SIGTERM, for a rank that closes
// files. Then Killing: SIGKILL, repeated. A signal to the launcher leads straight to Terminating, a
// second one to Killing. Each stage has a deadline, so the whole has one.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options)
      : options_(options), ranks_(static_cast<size_t>(options.num_ranks)) {
    sink_ = options.on_stderr ? options.on_stderr : StderrSink(write_stderr);
  }
  /// Whatever went wrong here, no rank stays.
  ~Launch() {
    signal_all(SIGKILL);
    for (RankProcess& rank : ranks_) {
      int status;
      while (rank.running() && !rank.reap(status)) ::poll(nullptr, 0, 1);
    }
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void start(const std::function<int(const LaunchedRank&)>& rank_main);
  LaunchResult wait();

 private:
  enum class Stage { Running, Reporting, Terminating, Killing };

  void poll_once();
  int poll_timeout_ms() const;
  void answer_signals();
  void stop_until_continued();
  void reap();
  void ended(int rank, pid_t pid, int status);
  void escalate();
  void enter(Stage stage, Milliseconds grace);
  void signal_all(int number) {
    for (const RankProcess& rank : ranks_) rank.signal(number);
  }

  const LaunchOptions& options_;
  StderrSink sink_;
  SignalScope signals_;
  StoreServer store_;
  std::vector<RankProcess> ranks_;
  std::vector<pollfd> fds_;
  int num_running_ = 0;
  Stage stage_ = Stage::Running;
  Clock::time_point deadline_;  ///< of the stage, when it is not Running
  LaunchResult result_;
};

void Launch::start(const std::function<int(const LaunchedRank&)>& rank_main) {
  fault_point("launcher-start", kFaultLauncher);
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const LaunchedRank info{rank, rank, options_.num_ranks, nullptr};
    const auto close_launcher_ends = [this] {
      signals_.close();
      store_.close_clients();
      for (RankProcess& other : ranks_) other.close_launcher_ends();
    };
    UniqueFd socket = store_.add_client();
    ranks_[static_cast<size_t>(rank)].start(info, std::move(socket), signals_.inherited(),
                                            close_launcher_ends, rank_main);
    ++num_running_;
    fault_point("launcher-fork", kFaultLauncher);
  }
}

LaunchResult Launch::wait() {
  while (num_running_ > 0) {
    poll_once();
    answer_signals();
    reap();
    escalate();
  }
  fault_point("launcher-end", kFaultLauncher);
  return std::move(result_);
}

// A failed poll (interrupted, say) is no reason to stop: the ranks are looked at in any case.
void Launch::poll_once() {
  fds_.clear();
  fds_.push_back(pollfd{signals_.fd(), POLLIN, 0});
  for (const RankProcess& rank : ranks_) fds_.push_back(pollfd{rank.stderr_fd(), POLLIN, 0});
  store_.append_poll_fds(fds_);
  if (::poll(fds_.data(), fds_.size(), poll_timeout_ms()) < 0) return;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (fds_[i + 1].revents == 0) continue;
    ranks_[i].read_stderr(static_cast<int>(i), options_.last_lines, sink_);
  }
  store_.serve(fds_);
}

int Launch::poll_timeout_ms() const {
  const int store_ms = store_.poll_timeout_ms();
  if (stage_ == Stage::Running) return store_ms;
  const auto left = std::chrono::ceil<Milliseconds>(deadline_ - Clock::now()).count();
  const int stage_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
  return store_ms < 0 ? stage_ms : std::min(store_ms, stage_ms);
}

void Launch::answer_signals() {
  while (const int number = signals_.next()) {
    if (number == SIGCHLD) continue;  // reap() looks at every rank anyway
    if (number == SIGTSTP) {
      stop_until_continued();
      continue;
    }
    if (stage_ == Stage::Terminating) {  // asked twice
      enter(Stage::Killing, Milliseconds(0));
      continue;
    }
    if (stage_ == Stage::Killing) continue;
    if (result_.exit_status == 0) {
      result_.exit_status = 128 + number;
      result_.signal = number;
      result_.reason = concat("stopped by signal ", number, " (", signal_name(number), ")");
    }
    fault_point("launcher-signal", kFaultLauncher);
    enter(Stage::Terminating, options_.terminate_grace);
  }
}

// Ctrl-Z: the ranks are in groups of their own, which the terminal does not stop.
void Launch::stop_until_continued() {
  signal_all(SIGSTOP);
  ::raise(SIGSTOP);
  signal_all(SIGCONT);
}

void Launch::reap() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const pid_t pid = ranks_[i].pid();
    int status = 0;
    if (!ranks_[i].reap(status)) continue;
    --num_running_;
    ranks_[i].finish_stderr(static_cast<int>(i), options_.last_lines, sink_);
    ended(static_cast<int>(i), pid, status);
  }
  // The first process of a container inherits every orphan in it.
  while (::getpid() == 1) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const bool ours = std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
      return rank.pid() == info.si_pid;
    });
    if (ours || ::waitpid(info.si_pid, nullptr, WNOHANG) <= 0) break;
  }
}

// The first failure is the cause, but for one case: a rank that ends because it lost another one
// (exit code of PeerLost) may be noticed before the rank that it lost.
void Launch::ended(int rank, pid_t pid, int status) {
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const int code = signal != 0 ? 128 + signal : WEXITSTATUS(status);
  const std::string how =
      signal != 0 ? concat("was killed by signal ", signal, " (", signal_name(signal), ")")
                  : concat("exited with code ", code);
  store_.set(exit_key(rank), how);
  if (code == 0 || stage_ == Stage::Terminating || stage_ == Stage::Killing) return;
  const bool first = result_.failed_rank < 0;
  const bool cause = !first && result_.exit_status == exit_code(ErrorKind::PeerLost) &&
                     code != exit_code(ErrorKind::PeerLost);
  if (first || cause) {
    result_.exit_status = code;
    result_.failed_rank = rank;
    result_.signal = signal;
    result_.reason = concat("rank ", rank, " of ", options_.num_ranks, " (pid ", pid, ") ", how);
    result_.last_lines = ranks_[static_cast<size_t>(rank)].last_lines();
  }
  if (first) store_.set(first_failure_key(), concat("rank ", rank, " ", how));
  fault_point("launcher-report", kFaultLauncher);
  store_.fail_waits(concat("rank ", rank, " ", how), kExitKeys);
  if (stage_ == Stage::Running) enter(Stage::Reporting, options_.report_grace);
}

void Launch::escalate() {
  if (stage_ == Stage::Running || Clock::now() < deadline_) return;
  if (stage_ == Stage::Reporting) {
    enter(Stage::Terminating, options_.terminate_grace);
  } else {
    enter(Stage::Killing, Milliseconds(100));  // again, in case one was just forking
  }
}

void Launch::enter(Stage stage, Milliseconds grace) {
  stage_ = stage;
  deadline_ = Clock::now() + grace;
  if (stage == Stage::Reporting) return;
  signal_all(stage == Stage::Terminating ? SIGTERM : SIGKILL);
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? concat("SIG", name) : concat("signal ", signal);
}

std::string first_failure_key() { return concat(kExitKeys, "first failure"); }

std::string exit_key(int rank) { return concat(kExitKeys, rank); }

LaunchResult launch(const LaunchOptions& options,
                    const std::function<int(const LaunchedRank&)>& rank_main) {
  LOCKSTEP_CHECK_KIND(Usage, options.num_ranks >= 1, "launch: number of ranks is ",
                      options.num_ranks, ", expected at least 1");
  Launch launch(options);
  launch.start(rank_main);
  return launch.wait();
}

}  // namespace lockstep::dist
