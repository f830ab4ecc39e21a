// How a launch ends from outside: signals to the launcher, its death, and life as process 1. The
// witness is a pipe that every rank holds open: its end means that no rank is left.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "dist/launcher.h"
#include "dist/unique_fd.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT

namespace {

constexpr int kPatienceMs = 60'000;

/// A child process that launches `num_ranks` ranks, each of which writes one byte into the pipe
/// once it runs `rank_main`'s first part, and holds the pipe.
class LauncherProcess {
 public:
  LauncherProcess(int num_ranks, std::function<void()> in_rank, bool as_process_1 = false)
      : num_ranks_(num_ranks) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    read_end_.reset(ends[0]);
    UniqueFd write_end(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    read_end_.reset();
    // The tests of a shell script run with SIGINT ignored, which the launcher would respect.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
    if (as_process_1 && !become_process_1()) ::_exit(kCannot);
    LaunchOptions options{.num_ranks = num_ranks};
    options.on_stderr = [](int, std::string_view) {};
    const LaunchResult result = launch(options, [&](const LaunchedRank&) -> int {
      in_rank();
      if (::write(write_end.get(), "x", 1) != 1) return 1;
      while (true) ::pause();
    });
    ::_exit(result.exit_status);
  }
  ~LauncherProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  /// Until every rank runs; false when the launcher ended instead.
  bool wait_until_up() {
    for (int i = 0; i < num_ranks_; ++i) {
      if (read_one() != 1) return false;
    }
    return true;
  }
  /// True once no rank is left.
  bool all_gone() { return read_one() == 0; }
  void signal(int number) const { ::kill(pid_, number); }
  /// waitpid's status.
  int wait() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

  static constexpr int kCannot = 111;

 private:
  // The child of this becomes process 1 of a new namespace; its exit status is passed on.
  static bool become_process_1() {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return false;
    const pid_t one = ::fork();
    if (one < 0) return false;
    if (one == 0) return true;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    int status = 0;
    while (::waitpid(one, &status, WNOHANG) == 0) {
      int number = 0;
      ::sigwait(&set, &number);
      if (number == SIGTERM) ::kill(one, SIGTERM);
    }
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }

  ssize_t read_one() const {
    pollfd ready{read_end_.get(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) return -1;
    char byte;
    return ::read(read_end_.get(), &byte, 1);
  }

  int num_ranks_;
  UniqueFd read_end_;
  pid_t pid_ = 0;
};

void nothing() {}
void ignore_sigterm() { ::signal(SIGTERM, SIG_IGN); }
void drop_parent_death_signal() { ::prctl(PR_SET_PDEATHSIG, 0); }

}  // namespace

TEST_CASE("SIGINT, SIGTERM and SIGHUP end everything, the exit status says which") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(number);
    LauncherProcess launcher(3, nothing);
    REQUIRE(launcher.wait_until_up());
    launcher.signal(number);
    CHECK(launcher.all_gone());
    const int status = launcher.wait();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 128 + number);
  }
}

TEST_CASE("ranks that ignore SIGTERM are killed") {
  LauncherProcess launcher(2, ignore_sigterm);
  REQUIRE(launcher.wait_until_up());
  launcher.signal(SIGINT);
  CHECK(launcher.all_gone());
  CHECK(WEXITSTATUS(launcher.wait()) == 128 + SIGINT);
}

TEST_CASE("no rank survives a launcher that is killed") {
  LauncherProcess launcher(3, nothing);
  REQUIRE(launcher.wait_until_up());
  launcher.signal(SIGKILL);
  CHECK(launcher.all_gone());
}

TEST_CASE("the death pipe alone is enough") {
  LauncherProcess launcher(3, drop_parent_death_signal);
  REQUIRE(launcher.wait_until_up());
  launcher.signal(SIGKILL);
  CHECK(launcher.all_gone());
}

TEST_CASE("a stopped rank is ended too") {
  LauncherProcess launcher(2, nothing);
  REQUIRE(launcher.wait_until_up());
  launcher.signal(SIGTSTP);
  int status = 0;
  launcher.signal(SIGCONT);
  launcher.signal(SIGTERM);
  CHECK(launcher.all_gone());
  status = launcher.wait();
  CHECK(WEXITSTATUS(status) == 128 + SIGTERM);
}

TEST_CASE("as process 1 it answers signals and reaps orphans") {
  // An orphan is reaped when its number is free again: a zombie still answers kill(pid, 0).
  const auto leave_an_orphan = [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(1);
    const pid_t parent = ::fork();
    if (parent == 0) {
      ::setsid();  // out of the rank's group, so that nobody kills it
      const pid_t orphan = ::fork();
      if (orphan == 0) ::_exit(0);
      ::_exit(::write(ends[1], &orphan, sizeof orphan) == sizeof orphan ? 0 : 1);
    }
    ::waitpid(parent, nullptr, 0);
    pid_t orphan = 0;
    if (::read(ends[0], &orphan, sizeof orphan) != sizeof orphan) ::_exit(1);
    while (::kill(orphan, 0) == 0) ::poll(nullptr, 0, 1);
  };
  LauncherProcess launcher(2, leave_an_orphan, /*as_process_1=*/true);
  if (!launcher.wait_until_up()) {
    REQUIRE(WEXITSTATUS(launcher.wait()) == LauncherProcess::kCannot);
    MESSAGE("skipped: this system does not let a test make a process namespace");
    return;
  }
  launcher.signal(SIGTERM);
  CHECK(launcher.all_gone());
  CHECK(WEXITSTATUS(launcher.wait()) == 128 + SIGTERM);
}
