// The launcher: exit codes, signals, what is shown of a failure. Every rank is a real process.
#include "dist/launcher.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

#include "core/base/error.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT

namespace {

constexpr Milliseconds kPatience{60'000};

LaunchOptions quiet(int num_ranks) {
  LaunchOptions options{.num_ranks = num_ranks};
  options.report_grace = Milliseconds(300);
  options.on_stderr = [](int, std::string_view) {};
  return options;
}

/// Until a signal ends this process.
int sleep_for_ever() {
  while (true) ::pause();
}

/// launch() with the signal actions of a program: the test framework handles fatal signals itself,
/// and would report each rank that is ended as a crashed test.
LaunchResult run(const LaunchOptions& options,
                 const std::function<int(const LaunchedRank&)>& rank_main) {
  return launch(options, [&](const LaunchedRank& rank) {
    for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGFPE, SIGILL}) {
      ::signal(number, SIG_DFL);
    }
    return rank_main(rank);
  });
}

bool has_children() { return !(::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD); }

}  // namespace

TEST_CASE("ranks know who they are, and success is 0") {
  for (const int world_size : {1, 2, 5}) {
    CAPTURE(world_size);
    const LaunchResult result = run(quiet(world_size), [](const LaunchedRank& rank) {
      rank.store->set("rank " + std::to_string(rank.rank), std::to_string(rank.world_size));
      for (int other = 0; other < rank.world_size; ++other) {
        const std::string size = rank.store->get("rank " + std::to_string(other), kPatience);
        if (size != std::to_string(rank.world_size)) return 1;
      }
      return rank.local_rank == rank.rank ? 0 : 2;
    });
    CHECK(result.exit_status == 0);
    CHECK(result.failed_rank == -1);
    CHECK(result.reason.empty());
    CHECK_FALSE(has_children());
  }
}

TEST_CASE("the exit status is the failing rank's, and the others are ended") {
  const LaunchResult result = run(quiet(3), [](const LaunchedRank& rank) {
    if (rank.rank != 1) return sleep_for_ever();
    std::cerr << "first line\nlast line without an end";
    return 3;
  });
  CHECK(result.exit_status == 3);
  CHECK(result.failed_rank == 1);
  CHECK(result.signal == 0);
  CHECK(result.reason.starts_with("rank 1 of 3 (pid "));
  CHECK(result.reason.ends_with(") exited with code 3"));
  CHECK(result.last_lines == "first line\nlast line without an end\n");
  CHECK_FALSE(has_children());
}

TEST_CASE("a signal becomes 128 + its number, with its name") {
  for (const int number : {SIGKILL, SIGSEGV, SIGTERM}) {
    CAPTURE(number);
    const LaunchResult result = run(quiet(2), [&](const LaunchedRank& rank) {
      if (rank.rank == 1) return sleep_for_ever();
      ::raise(number);
      return 0;
    });
    CHECK(result.exit_status == 128 + number);
    CHECK(result.failed_rank == 0);
    CHECK(result.signal == number);
    CHECK(result.reason.find(signal_name(number)) != std::string::npos);
  }
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(250) == "signal 250");
}

TEST_CASE("an error that escapes a rank is shown and becomes its kind's exit code") {
  const LaunchResult bad_data = run(quiet(2), [](const LaunchedRank& rank) -> int {
    if (rank.rank == 1) LOCKSTEP_THROW(BadData, "train.idx: truncated");
    return sleep_for_ever();
  });
  CHECK(bad_data.exit_status == 65);
  CHECK(bad_data.last_lines == "error: train.idx: truncated\n");
  const LaunchResult other =
      run(quiet(1), [](const LaunchedRank&) -> int { throw std::runtime_error("not ours"); });
  CHECK(other.exit_status == 70);
  CHECK(other.last_lines == "error: rank 0: not ours\n");
}

TEST_CASE("a rank that only lost its peer is not the cause") {
  const LaunchResult result = run(quiet(3), [](const LaunchedRank& rank) {
    if (rank.rank != 1) return exit_code(ErrorKind::PeerLost);
    // The others' ends are in the store before this rank ends.
    rank.store->get(exit_key(0), kPatience);
    rank.store->get(exit_key(2), kPatience);
    return 42;
  });
  CHECK(result.exit_status == 42);
  CHECK(result.failed_rank == 1);
}

TEST_CASE("the others have time to report, and read how the rank ended") {
  LaunchOptions options = quiet(2);
  options.report_grace = Milliseconds(30'000);
  std::string seen;
  options.on_stderr = [&](int rank, std::string_view line) {
    seen += std::to_string(rank) + ": " + std::string(line);
  };
  const LaunchResult result = run(options, [](const LaunchedRank& rank) {
    if (rank.rank == 0) ::raise(SIGKILL);
    std::cerr << "rank 0 " << rank.store->get(exit_key(0), kPatience) << std::endl;
    return exit_code(ErrorKind::PeerLost);
  });
  CHECK(result.exit_status == 128 + SIGKILL);
  CHECK(result.failed_rank == 0);
  CHECK(seen == "1: rank 0 was killed by signal 9 (SIGKILL)\n");
}

TEST_CASE("a rank that ignores SIGTERM is killed") {
  LaunchOptions options = quiet(2);
  options.terminate_grace = Milliseconds(50);
  const LaunchResult result = run(options, [](const LaunchedRank& rank) {
    if (rank.rank == 1) {
      ::signal(SIGTERM, SIG_IGN);
      rank.store->set("deaf", "");
      return sleep_for_ever();
    }
    rank.store->wait("deaf", kPatience);
    return 9;
  });
  CHECK(result.exit_status == 9);
  CHECK_FALSE(has_children());
}

TEST_CASE("lines stay whole, and only the last ones are kept") {
  LaunchOptions options = quiet(2);
  options.last_lines = 3;
  bool whole = true;
  int lines[2] = {0, 0};
  options.on_stderr = [&](int rank, std::string_view line) {
    whole =
        whole && line.ends_with(" end\n") && line.starts_with("line of " + std::to_string(rank));
    ++lines[rank];
  };
  const LaunchResult result = run(options, [](const LaunchedRank& rank) {
    for (int i = 0; i < 500; ++i) {
      std::cerr << "line of " << rank.rank << " number " << i << " end\n";
    }
    return rank.rank == 0 ? 0 : 5;
  });
  CHECK(whole);
  CHECK(lines[0] == 500);
  CHECK(lines[1] == 500);
  CHECK(result.last_lines ==
        "line of 1 number 497 end\nline of 1 number 498 end\nline of 1 number 499 end\n");
}

TEST_CASE("of a progress bar only the last state is kept") {
  const LaunchResult result = run(quiet(1), [](const LaunchedRank&) {
    std::cerr << "10%\r50%\r90%\rfailed\n";
    return 1;
  });
  CHECK(result.last_lines == "failed\n");
}

TEST_CASE("what a rank has started ends with it") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const LaunchResult result = run(quiet(1), [&](const LaunchedRank&) {
    if (::fork() == 0) sleep_for_ever();
    return 0;
  });
  ::close(ends[1]);
  CHECK(result.exit_status == 0);
  char byte;
  CHECK(::read(ends[0], &byte, 1) == 0);  // the end of the pipe: nobody else holds it
  ::close(ends[0]);
}

TEST_CASE("the signal mask and SIGCHLD are as before, here and in the ranks") {
  struct sigaction ignore {};
  struct sigaction previous {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &previous);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  sigset_t original;
  ::sigprocmask(SIG_BLOCK, &mask, &original);
  const auto unchanged = [] {
    sigset_t now;
    ::sigprocmask(SIG_SETMASK, nullptr, &now);
    struct sigaction action {};
    ::sigaction(SIGCHLD, nullptr, &action);
    return sigismember(&now, SIGUSR2) == 1 && sigismember(&now, SIGINT) == 0 &&
           sigismember(&now, SIGCHLD) == 0 && action.sa_handler == SIG_IGN;
  };
  const LaunchResult result =
      run(quiet(2), [&](const LaunchedRank& rank) { return unchanged() ? rank.rank : 9; });
  CHECK(result.exit_status == 1);  // rank 1's, even though the caller ignores SIGCHLD
  CHECK(unchanged());
  ::sigprocmask(SIG_SETMASK, &original, nullptr);
  ::sigaction(SIGCHLD, &previous, nullptr);
}

TEST_CASE("fewer than one rank is a usage error") {
  try {
    run(quiet(0), [](const LaunchedRank&) { return 0; });
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Usage);
    CHECK(std::string(error.what()).find("expected at least 1") != std::string::npos);
  }
}
