// Forking a rank, and what the fork does before and after rank_main.
#include "dist/launcher_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include "core/base/error.h"
#include "core/base/fault.h"
#include "dist/launcher_store.h"
#include "dist/rank_context.h"

namespace lockstep::dist {
namespace {

/// A line this long is handed on in pieces.
constexpr size_t kMaxLineBytes = 8192;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe(const char* purpose) {
  int ends[2];
  LOCKSTEP_CHECK_KIND(Io, ::pipe2(ends, O_CLOEXEC) == 0, "launch: no pipe for ", purpose, ": ",
                      std::strerror(errno), "; raise the limit on open files (ulimit -n)");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Note [No rank outlives the launcher]
// Two independent bonds, each of which the kernel enforces without a thread or a handler here.
// PR_SET_PDEATHSIG kills the rank when the thread that forked it ends; it is lost when a rank
// changes its credentials. The death pipe, whose write end only the launcher holds, raises SIGKILL
// through O_ASYNC when it closes. A launcher that died before the bonds were armed is seen by the
// changed parent.
void bind_to_launcher(pid_t launcher, UniqueFd death_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = death_pipe.release();  // open as long as the process lives
  ::fcntl(fd, F_SETOWN, ::getpid());
  ::fcntl(fd, F_SETSIG, SIGKILL);
  ::fcntl(fd, F_SETFL, O_ASYNC);
  if (::getppid() != launcher) ::_exit(128 + SIGKILL);
}

void redirect(UniqueFd stderr_pipe) {
  ::dup2(stderr_pipe.get(), STDERR_FILENO);
  // Ranks share the terminal's input with nobody: a read there would stop them.
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.valid()) ::dup2(null.get(), STDIN_FILENO);
}

/// Exceptions end here, as in main: nothing may unwind into the launcher's frames, whose
/// destructors would end the other ranks.
int run_guarded(const LaunchedRank& info, UniqueFd store_socket,
                const std::function<int(const LaunchedRank&)>& rank_main) noexcept {
  try {
    LaunchedRank rank = info;
    rank.store = make_launcher_store(std::move(store_socket));
    set_rank_context({rank.rank, rank.local_rank, rank.world_size, rank.store});
    const int code = rank_main(rank);
    fault_point("exit", rank.rank);
    return code;
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << "error: rank " << info.rank << ": " << error.what() << std::endl;
    return exit_code(ErrorKind::Internal);
  }
}

}  // namespace

void RankProcess::start(const LaunchedRank& info, UniqueFd store_socket, const Inherited& inherited,
                        const std::function<void()>& close_launcher_ends,
                        const std::function<int(const LaunchedRank&)>& rank_main) {
  Pipe output = make_pipe("a rank's stderr");
  Pipe death = make_pipe("the launcher's end");
  std::cout.flush();  // or the fork would print the same bytes again
  std::fflush(nullptr);
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  LOCKSTEP_CHECK_KIND(Io, pid >= 0, "launch: cannot start rank ", info.rank, ": ",
                      std::strerror(errno));
  if (pid != 0) {
    ::setpgid(pid, pid);  // here too, or a signal could come before the rank has done it
    pid_ = pid;
    stderr_ = std::move(output.read_end);
    ::fcntl(stderr_.get(), F_SETFL, O_NONBLOCK);
    death_pipe_ = std::move(death.write_end);
    return;
  }
  // A group of its own: the terminal's Ctrl-C reaches the launcher alone, which then ends the ranks
  // in order, and what a rank starts can be ended with it.
  fault_point("rank-start", info.rank);
  ::setpgid(0, 0);
  death.write_end.reset();
  output.read_end.reset();
  close_launcher_ends();
  bind_to_launcher(launcher, std::move(death.read_end));
  redirect(std::move(output.write_end));
  ::sigaction(SIGCHLD, &inherited.child_action, nullptr);
  ::sigprocmask(SIG_SETMASK, &inherited.signal_mask, nullptr);
  const int code = run_guarded(info, std::move(store_socket), rank_main);
  // Not _exit: buffers are written and the checks that sanitizers make at exit are made. The frames
  // of the launcher below this one are never returned to.
  std::exit(code);
}

void RankProcess::close_launcher_ends() {
  stderr_.reset();
  death_pipe_.reset();
}

// A process that vanished without a status (somebody else has waited for it) counts as failed.
bool RankProcess::reap(int& status) {
  if (!running()) return false;
  siginfo_t info{};
  // Not reaped yet, its number is still the group's, so that the kill below cannot hit a stranger.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    info.si_pid = errno == ECHILD ? pid_ : 0;
  }
  if (info.si_pid == 0) return false;
  ::kill(-pid_, SIGKILL);
  if (::waitpid(pid_, &status, 0) != pid_) status = exit_code(ErrorKind::Internal) << 8;
  pid_ = 0;
  death_pipe_.reset();
  return true;
}

void RankProcess::signal(int number) const {
  if (running()) ::kill(-pid_, number);
}

void RankProcess::read_stderr(int rank, int keep_lines, const StderrSink& sink) {
  char bytes[4096];
  while (stderr_.valid()) {
    const ssize_t n = ::read(stderr_.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // EAGAIN: nothing more for now
    if (n == 0) stderr_.reset();
    partial_.append(bytes, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    size_t begin = 0;
    size_t end;
    while ((end = partial_.find_first_of("\n\r", begin)) != std::string::npos) {
      hand_on(rank, keep_lines, sink, std::string_view(partial_).substr(begin, end + 1 - begin));
      begin = end + 1;
    }
    partial_.erase(0, begin);
    if (partial_.size() >= kMaxLineBytes) {
      hand_on(rank, keep_lines, sink, std::exchange(partial_, {}));
    }
  }
}

void RankProcess::finish_stderr(int rank, int keep_lines, const StderrSink& sink) {
  read_stderr(rank, keep_lines, sink);
  // What a killed grandchild left of the pipe is not waited for.
  stderr_.reset();
  if (!partial_.empty()) hand_on(rank, keep_lines, sink, std::exchange(partial_, {}) + '\n');
}

void RankProcess::hand_on(int rank, int keep_lines, const StderrSink& sink, std::string_view line) {
  sink(rank, line);
  // A progress bar redraws its line with '\r': only its last state is worth keeping.
  if (!tail_.empty() && tail_.back().ends_with('\r')) tail_.pop_back();
  tail_.emplace_back(line);
  while (tail_.size() > static_cast<size_t>(std::max(keep_lines, 0))) tail_.pop_front();
}

std::string RankProcess::last_lines() const {
  std::string text;
  for (const std::string& line : tail_) text += line;
  if (text.ends_with('\r')) text.back() = '\n';
  return text;
}

}  // namespace lockstep::dist
