// The meeting of all ranks that every collective is made of: each rank publishes what it is about
// to do and waits until all have; then all compare. No wait is without a deadline, and a wait that
// cannot end names the rank that is missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "dist/liveness.h"
#include "dist/shm_layout.h"

namespace lockstep::dist {

/// One rank's end of the group. Used by one thread at a time.
class ShmBarrier {
 public:
  ShmBarrier(SharedGroup group, int rank, Milliseconds timeout);

  /// The parity of the next meeting: staging chunks filled before it belong to this parity.
  uint32_t next_parity() const { return (number_ + 1) % 2; }
  /// The parity of the last meeting.
  uint32_t parity() const { return number_ % 2; }

  /// Publishes the call and waits for everybody. Afterwards the memory that the others wrote before
  /// can be read. Returns true if all gave the same location other than 0.
  /// problem: what is wrong with this rank's arguments by themselves, or empty; then this rank
  ///   throws it, and every other one an error that names this rank
  /// throws Error on every rank when the calls differ; the group's failure; Error(PeerLost) when a
  ///   rank that has not arrived is gone; Error(Timeout) naming those that did not arrive
  bool meet(const CallFingerprint& fingerprint, int64_t location = 0,
            const std::string& problem = {});

  /// True if the last meeting threw: then it threw on every rank that came.
  bool threw() const { return threw_; }

  /// Begins to watch the processes of all ranks, which must have joined.
  void watch_peers();

  /// How long meet() looks at the others' slots before it sleeps.
  void set_spin(std::chrono::nanoseconds spin) { spin_ = spin; }

  const SharedGroup& group() const { return group_; }

 private:
  using Clock = std::chrono::steady_clock;

  Arrival& arrival(int rank) const { return group_.slot(rank).arrivals[number_ % 2]; }
  bool everyone_arrived();
  bool spin();
  void sleep_until_all(const CallFingerprint& fingerprint);
  void check_missing(const CallFingerprint& fingerprint, bool look_at_processes);
  std::vector<int> missing_ranks() const;
  std::vector<int> gone_ranks() const;
  void compare(const CallFingerprint& fingerprint, const std::string& problem) const;
  [[noreturn]] void give_up(ErrorKind kind, const CallFingerprint& fingerprint,
                            std::string_view text);
  [[noreturn]] void throw_failure(const CallFingerprint& fingerprint) const;

  SharedGroup group_;
  int rank_;
  Milliseconds timeout_;
  std::string prefix_;
  Liveness liveness_;
  std::chrono::nanoseconds spin_{0};
  uint32_t number_ = 0;    ///< of the last meeting
  int first_missing_ = 0;  ///< all ranks before it have arrived
  bool threw_ = false;
};

}  // namespace lockstep::dist
