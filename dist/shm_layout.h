// The shared memory of one group, byte for byte: a header, one slot a rank, and staging chunks.
// Every field is written by one rank only (its slot) or is atomic.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/dtype.h"
#include "core/shape.h"
#include "dist/process_group.h"

namespace lockstep::dist {

inline constexpr int kMaxRanks = 256;
inline constexpr size_t kCacheLine = 64;
/// A tensor that is not in shared memory passes through it in chunks of this size.
inline constexpr int64_t kChunkBytes = 256 * 1024;

enum class Collective : uint8_t {
  None,
  AllReduce,
  Broadcast,
  AllGather,
  ReduceScatter,
  Barrier,
  Allocate,
};

const char* collective_name(Collective collective);

/// What a rank is about to do; equal on all ranks or an error on all ranks.
struct CallFingerprint {
  Collective collective = Collective::None;
  ReduceOp reduce_op = ReduceOp::Sum;
  DType dtype = DType::Float32;
  uint8_t num_dims = 0;
  int32_t root = -1;
  uint64_t sequence = 0;  ///< the how-many-eth collective of this rank
  std::array<int64_t, Shape::kMaxDims> sizes{};

  /// Looks at the extents in use only: a comparison then stays within one cache line.
  friend bool operator==(const CallFingerprint& a, const CallFingerprint& b) {
    return a.collective == b.collective && a.reduce_op == b.reduce_op && a.dtype == b.dtype &&
           a.root == b.root && a.sequence == b.sequence && a.num_dims == b.num_dims &&
           std::equal(a.sizes.begin(), a.sizes.begin() + a.num_dims, b.sizes.begin());
  }
};

/// One rank's arrival at one meeting. A rank has two that alternate: one is overwritten only after
/// everybody has arrived at the next meeting, so has read this one.
struct alignas(kCacheLine) Arrival {
  std::atomic<uint32_t> number{0};  ///< of the meeting; stored last
  uint32_t invalid = 0;             ///< this rank's arguments are wrong by themselves
  /// Where the tensor is in the shared memory, or 0: equal on all ranks, it is reduced in place.
  int64_t location = 0;
  CallFingerprint fingerprint;
};

enum class Presence : uint32_t { Absent, Joined, Left };

/// Phase, readable by others while its rank changes it (a sequence lock over relaxed atomics).
struct alignas(kCacheLine) SharedPhase {
  static constexpr size_t kWords = 5;
  std::atomic<uint32_t> version{0};  ///< odd while it changes
  std::atomic<int64_t> step{-1};
  std::atomic<int64_t> bucket{-1};
  std::array<std::atomic<uint64_t>, kWords> name{};  ///< characters, zero-terminated
};

struct alignas(kCacheLine) RankSlot {
  std::atomic<Presence> presence{Presence::Absent};
  std::atomic<int32_t> pid{0};
  std::array<uint64_t, 16> cpus{};  ///< bit i: this rank may run on CPU i
  SharedPhase phase;
  std::array<Arrival, 2> arrivals;
};

/// The first failure of the group; every later collective of every rank throws it.
struct alignas(kCacheLine) Failure {
  static constexpr uint32_t kNone = 0, kWriting = 1, kSet = 2;
  std::atomic<uint32_t> state{kNone};
  int32_t kind = 0;  ///< an ErrorKind
  int32_t reporter = -1;
  std::array<char, 1500> text{};
};

struct alignas(kCacheLine) GroupHeader {
  std::atomic<uint32_t> wake_word{0};  ///< changes when sleepers have a reason to look again
  std::atomic<uint32_t> sleepers{0};
  Failure failure;
};

/// A rank's view of the mapped group memory.
class SharedGroup {
 public:
  SharedGroup(std::shared_ptr<std::byte> memory, int world_size);

  static int64_t nbytes(int world_size);
  int world_size() const { return world_size_; }
  GroupHeader& header() const;
  RankSlot& slot(int rank) const;
  /// Rank's staging chunk of kChunkBytes for the meetings of this parity.
  std::byte* staging(int rank, uint32_t parity) const;

  /// True once fail() was called by any rank.
  bool failed() const;
  /// Records the group's failure as `reporter` saw it, unless there is one already, and wakes all.
  void fail(int reporter, ErrorKind kind, const std::string& text) const noexcept;
  /// Makes sleeping ranks look again.
  void wake() const noexcept;

 private:
  std::shared_ptr<std::byte> memory_;
  int world_size_;
};

}  // namespace lockstep::dist
