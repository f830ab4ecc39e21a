// Many ranks in one test: as threads over a store in memory, or as forked processes over a file
// store. A rank that throws aborts the group, so that no other one waits for it.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "dist/process_group.h"
#include "tests/temporary_folder.h"

namespace lockstep::test {

/// How one rank ended.
struct RankOutcome {
  int signal = 0;                  ///< that killed its process
  std::optional<ErrorKind> error;  ///< that its function threw
  std::string message;
  bool ok() const { return signal == 0 && !error.has_value(); }
};

using RankFunction = std::function<void(dist::ProcessGroup&)>;

inline constexpr dist::Milliseconds kRankTimeout{20'000};

/// Throws, in a rank, unless the condition holds: a CHECK in a forked process would be lost.
template <typename... Parts>
void expect(bool condition, const Parts&... parts) {
  LOCKSTEP_CHECK(condition, "expectation failed: ", parts...);
}

/// Joins the group and runs function; what it throws becomes the outcome.
inline RankOutcome run_rank(int rank, int world_size, std::shared_ptr<dist::Store> store,
                            const RankFunction& function, dist::Milliseconds timeout) {
  RankOutcome outcome;
  std::shared_ptr<dist::ProcessGroup> group;
  try {
    group = dist::init_process_group(
        {.rank = rank, .world_size = world_size, .store = std::move(store), .timeout = timeout});
    function(*group);
  } catch (const Error& error) {
    outcome = {0, error.kind(), error.what()};
  } catch (const std::exception& error) {
    outcome = {0, ErrorKind::Internal, error.what()};
  } catch (...) {  // doctest's REQUIRE throws its own type, after it has printed the failure
    outcome = {0, ErrorKind::Internal, "a REQUIRE failed"};
  }
  if (!outcome.ok() && group != nullptr) group->abort(outcome.message);
  return outcome;
}

/// Ranks as threads; the outcome of each. The first one that failed, in time, is `first_failed`.
inline std::vector<RankOutcome> run_rank_outcomes(int world_size, const RankFunction& function,
                                                  dist::Milliseconds timeout = kRankTimeout,
                                                  int* first_failed = nullptr) {
  std::vector<RankOutcome> outcomes(static_cast<size_t>(world_size));
  const auto store = dist::make_memory_store();
  std::mutex mutex;
  int first = -1;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      RankOutcome outcome = run_rank(rank, world_size, store, function, timeout);
      const std::lock_guard lock(mutex);
      if (!outcome.ok() && first < 0) first = rank;
      outcomes[static_cast<size_t>(rank)] = std::move(outcome);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first_failed != nullptr) *first_failed = first;
  return outcomes;
}

/// One assertion a rank; the ranks named in `order` first, as the cause stands above what it
/// caused.
inline void require_ok(const std::vector<RankOutcome>& outcomes, const std::vector<size_t>& order) {
  const auto require_rank = [&](size_t rank) {
    const RankOutcome& outcome = outcomes[rank];
    REQUIRE_MESSAGE(outcome.ok(), "rank ", rank, ", signal ", outcome.signal, ": ",
                    outcome.message);
  };
  for (const size_t rank : order) require_rank(rank);
  for (size_t rank = 0; rank < outcomes.size(); ++rank) require_rank(rank);
}

/// Ranks as threads, each of which must succeed.
inline void run_ranks(int world_size, const RankFunction& function,
                      dist::Milliseconds timeout = kRankTimeout) {
  int first = -1;
  const auto outcomes = run_rank_outcomes(world_size, function, timeout, &first);
  require_ok(outcomes, first < 0 ? std::vector<size_t>{} : std::vector{static_cast<size_t>(first)});
}

/// Reads a child's outcome ("KIND message") from its pipe and reaps it.
inline RankOutcome collect_outcome(int pid, int pipe) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = ::read(pipe, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  ::close(pipe);
  int status = 0;
  ::waitpid(pid, &status, 0);
  RankOutcome outcome;
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    outcome.error = static_cast<ErrorKind>(WEXITSTATUS(status));
    outcome.message = text;
  }
  return outcome;
}

/// Ranks as forked processes; the outcome of each. `kill_one`, if given, runs in the parent
/// meanwhile, with the ranks' pids.
inline std::vector<RankOutcome> run_rank_process_outcomes(
    int world_size, const RankFunction& function, dist::Milliseconds timeout = kRankTimeout,
    const std::function<void(const std::vector<int>&)>& meanwhile = {}) {
  const TemporaryFolder folder;
  std::vector<int> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < world_size; ++rank) {
    std::array<int, 2> ends{};
    LOCKSTEP_CHECK(::pipe(ends.data()) == 0, "cannot make a pipe");
    const int pid = ::fork();
    LOCKSTEP_CHECK(pid >= 0, "cannot fork");
    if (pid == 0) {
      ::close(ends[0]);
      RankOutcome outcome;
      {
        const auto store = dist::make_file_store(folder.file("store"), world_size);
        outcome = run_rank(rank, world_size, store, function, timeout);
      }
      const ssize_t written = ::write(ends[1], outcome.message.data(), outcome.message.size());
      ::_exit(outcome.ok() && written >= 0 ? 0 : exit_code(*outcome.error));
    }
    ::close(ends[1]);
    pids.push_back(pid);
    pipes.push_back(ends[0]);
  }
  if (meanwhile) meanwhile(pids);
  std::vector<RankOutcome> outcomes;
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    outcomes.push_back(collect_outcome(pids[rank], pipes[rank]));
  }
  return outcomes;
}

/// Ranks as forked processes, each of which must succeed. What a rank reports of another's failure
/// is PeerLost; the cause is a signal or any other kind.
inline void run_rank_processes(int world_size, const RankFunction& function,
                               dist::Milliseconds timeout = kRankTimeout) {
  const auto outcomes = run_rank_process_outcomes(world_size, function, timeout);
  std::vector<size_t> causes;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const RankOutcome& outcome = outcomes[rank];
    if (!outcome.ok() && outcome.error != ErrorKind::PeerLost) causes.push_back(rank);
  }
  require_ok(outcomes, causes);
}

}  // namespace lockstep::test
