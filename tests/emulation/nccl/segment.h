// The memory that the ranks of a communicator share: who they are, where they meet, and a slot for
// each to show its data. It has no name in the file system: the unique id says which descriptor of
// which process to open, so nothing is left behind, and (as with NCCL) the process that made the id
// must live until all have joined.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::emulation {

inline constexpr int kMaxRanks = 32;
inline constexpr size_t kSlotBytes = size_t{256} << 10;

enum class Collective : int32_t { AllReduce, Broadcast, Reduce, AllGather, ReduceScatter };

/// One call, as every rank must make it.
struct Call {
  Collective kind;
  int32_t type;
  int32_t op;
  int32_t root;
  uint64_t count;
  uint64_t sequence;  ///< counted by each communicator from 0

  friend bool operator==(const Call&, const Call&) = default;
};

struct Peer {
  std::atomic<int> process;
  std::atomic<int> device;  ///< its physical number
  std::atomic<int> taken;
  Call call;  ///< written before a meeting, read by the others after it
};

struct Segment {
  std::atomic<uint64_t> token;  ///< of the unique id
  std::atomic<int> ranks;
  std::atomic<int> failed;
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> generation;  ///< counts meetings; a futex
  Peer peers[kMaxRanks];
  alignas(4096) char slots[kMaxRanks][kSlotBytes];
};

/// Makes a segment and the id under which it is found. False when the system refuses.
bool create_segment(ncclUniqueId* id);
/// Maps the segment of an id, or returns null.
Segment* open_segment(const ncclUniqueId& id);
void close_segment(Segment* segment);

/// Sleeps until the generation is no longer `seen`, or some milliseconds passed.
void wait_for_generation(Segment& segment, uint32_t seen);
void wake_all(Segment& segment);

/// A process that is gone, or waits to be buried.
bool is_dead(int process);

}  // namespace lockstep::emulation
