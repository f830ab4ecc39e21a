// Arriving costs one store and one look at the others' slots; who waits long sleeps on a futex.
#include "dist/shm_barrier.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "dist/futex.h"
#include "dist/shm_report.h"

namespace lockstep::dist {
namespace {

/// Between two looks at whether the missing ranks' processes live.
constexpr std::chrono::milliseconds kSlice{20};

/// How long a spinning rank believes that the others have cores of their own.
constexpr std::chrono::microseconds kPatience{3};

void relax() { __builtin_ia32_pause(); }

}  // namespace

// Note [Sleeping and waking]
// A sleeper counts itself, reads the wake word, looks once more whether all have arrived, and
// sleeps if the word has not changed since. An arriving rank stores its number, then reads the
// count: when it is not zero and all have arrived, it changes the word and wakes. All of these are
// sequentially consistent, so either the last rank sees the sleeper or the sleeper sees the last
// rank. A lost wake would cost one slice, not a hang.

ShmBarrier::ShmBarrier(SharedGroup group, int rank, Milliseconds timeout)
    : group_(std::move(group)),
      rank_(rank),
      timeout_(timeout),
      prefix_(rank_prefix(rank, group_.world_size())),
      liveness_(group_.world_size()) {}

bool ShmBarrier::meet(const CallFingerprint& fingerprint, int64_t location,
                      const std::string& problem) {
  threw_ = true;
  if (group_.failed()) throw_failure(fingerprint);
  ++number_;
  first_missing_ = 0;
  Arrival& mine = arrival(rank_);
  mine.invalid = problem.empty() ? 0 : 1;
  mine.location = location;
  mine.fingerprint = fingerprint;
  mine.number.store(number_);
  if (group_.header().sleepers.load() != 0 && everyone_arrived()) group_.wake();
  if (!everyone_arrived() && !spin()) sleep_until_all(fingerprint);
  compare(fingerprint, problem);
  threw_ = false;
  bool same_location = location != 0;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    same_location = same_location && arrival(rank).location == location;
  }
  return same_location;
}

bool ShmBarrier::everyone_arrived() {
  while (first_missing_ < group_.world_size() && arrival(first_missing_).number.load() == number_) {
    ++first_missing_;
  }
  return first_missing_ == group_.world_size();
}

bool ShmBarrier::spin() {
  if (spin_.count() == 0) return false;
  const auto begin = Clock::now();
  while (!group_.failed()) {
    for (int i = 0; i < 64; ++i) {
      if (everyone_arrived()) return true;
      relax();
    }
    const auto spent = Clock::now() - begin;
    if (spent >= spin_) return false;
    // The missing rank may be waiting for this very core.
    if (spent >= kPatience) ::sched_yield();
  }
  return false;
}

void ShmBarrier::sleep_until_all(const CallFingerprint& fingerprint) {
  struct Count {
    explicit Count(std::atomic<uint32_t>& sleepers) : sleepers_(sleepers) { ++sleepers_; }
    ~Count() { --sleepers_; }
    std::atomic<uint32_t>& sleepers_;
  };
  GroupHeader& header = group_.header();
  const auto deadline = Clock::now() + timeout_;
  const Count count(header.sleepers);
  bool slice_passed = false;
  while (true) {
    const uint32_t word = header.wake_word.load();
    if (everyone_arrived()) return;
    if (group_.failed()) throw_failure(fingerprint);
    check_missing(fingerprint, slice_passed);
    const auto now = Clock::now();
    if (now >= deadline) {
      give_up(ErrorKind::Timeout, fingerprint,
              concat("after ", timeout_.count(),
                     " ms these had not arrived: ", describe_ranks(group_, missing_ranks()),
                     "; see what they do, or raise the process group's timeout"));
    }
    slice_passed = !futex_wait(header.wake_word, word,
                               std::min<std::chrono::nanoseconds>(kSlice, deadline - now));
  }
}

void ShmBarrier::check_missing(const CallFingerprint& fingerprint, bool look_at_processes) {
  std::vector<int> dead;
  std::vector<int> left;
  for (int rank = first_missing_; rank < group_.world_size(); ++rank) {
    if (arrival(rank).number.load() == number_) continue;
    RankSlot& slot = group_.slot(rank);
    const Presence presence = slot.presence.load();
    bool gone = false;
    if (look_at_processes && presence == Presence::Joined) {
      liveness_.watch(rank, slot.pid.load(std::memory_order_relaxed));
      gone = liveness_.is_gone(rank);
    }
    if (!gone && presence != Presence::Left) continue;
    if (arrival(rank).number.load() == number_) continue;  // it arrived, then ended
    (gone ? dead : left).push_back(rank);
  }
  // All that died, because any of them may be the cause.
  if (!dead.empty()) {
    give_up(ErrorKind::PeerLost, fingerprint,
            concat(describe_ranks(group_, dead), " died; see ", dead.size() == 1 ? "its" : "their",
                   " own output for the reason"));
  }
  if (!left.empty()) {
    give_up(ErrorKind::PeerLost, fingerprint,
            concat(describe_ranks(group_, left), left.size() == 1 ? " has" : " have",
                   " left the group; every rank must make the same collective calls"));
  }
}

std::vector<int> ShmBarrier::gone_ranks() const {
  std::vector<int> gone;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    if (liveness_.is_gone(rank)) gone.push_back(rank);
  }
  return gone;
}

std::vector<int> ShmBarrier::missing_ranks() const {
  std::vector<int> missing;
  for (int rank = first_missing_; rank < group_.world_size(); ++rank) {
    if (arrival(rank).number.load() != number_) missing.push_back(rank);
  }
  return missing;
}

void ShmBarrier::compare(const CallFingerprint& fingerprint, const std::string& problem) const {
  if (!problem.empty()) LOCKSTEP_THROW(Internal, prefix_, describe(fingerprint), ": ", problem);
  const CallFingerprint& first = arrival(0).fingerprint;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const Arrival& other = arrival(rank);
    LOCKSTEP_CHECK(other.invalid == 0, prefix_, describe(fingerprint), ": rank ", rank,
                   " called it with invalid arguments: ", describe(other.fingerprint),
                   "; its own error says what is wrong");
    LOCKSTEP_CHECK(other.fingerprint == first, prefix_,
                   "the ranks call different collectives: rank 0 calls ", describe(first),
                   ", rank ", rank, " calls ", describe(other.fingerprint),
                   "; every rank must make the same calls, in the same order, with equal shapes "
                   "and dtypes");
  }
}

void ShmBarrier::watch_peers() {
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    liveness_.watch(rank, group_.slot(rank).pid.load(std::memory_order_relaxed));
  }
}

void ShmBarrier::give_up(ErrorKind kind, const CallFingerprint& fingerprint,
                         std::string_view text) {
  group_.fail(rank_, kind, concat(describe(fingerprint), ": ", text));
  throw_failure(fingerprint);
}

void ShmBarrier::throw_failure(const CallFingerprint& fingerprint) const {
  const Failure& failure = group_.header().failure;
  // Who reports may die while it writes. Then the text stays unknown, and those are named who had
  // ended first: later on, ranks that have given up as well would be among them.
  const auto end = Clock::now() + std::chrono::milliseconds(200);
  std::vector<int> dead;
  while (failure.state.load(std::memory_order_acquire) != Failure::kSet) {
    if (dead.empty()) dead = gone_ranks();
    LOCKSTEP_CHECK_KIND(PeerLost, Clock::now() < end, prefix_, describe(fingerprint), ": ",
                        dead.empty() ? "a rank" : describe_ranks(group_, dead),
                        " died, and so did who reported it");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::string text = failure.text.data();
  const std::string call =
      failure.reporter == rank_
          ? ""
          : concat(describe(fingerprint), " failed: rank ", failure.reporter, " reports: ");
  throw Error(static_cast<ErrorKind>(failure.kind), concat(prefix_, call, text));
}

}  // namespace lockstep::dist
