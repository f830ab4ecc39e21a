// Formatting only; what is read here is shared memory that other ranks may be writing.
#include "dist/shm_report.h"

#include <unistd.h>

#include <cstring>

#include "core/base/error.h"

namespace lockstep::dist {
namespace {

/// A copy of a phase that may change while it is read: after a few torn reads, whatever is there.
struct PhaseCopy {
  int64_t step = -1;
  int64_t bucket = -1;
  std::array<char, SharedPhase::kWords * 8 + 1> name{};
};

PhaseCopy copy_phase(const SharedPhase& phase) {
  PhaseCopy copy;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const uint32_t before = phase.version.load(std::memory_order_acquire);
    copy.step = phase.step.load(std::memory_order_relaxed);
    copy.bucket = phase.bucket.load(std::memory_order_relaxed);
    for (size_t i = 0; i < SharedPhase::kWords; ++i) {
      const uint64_t word = phase.name[i].load(std::memory_order_acquire);
      std::memcpy(copy.name.data() + 8 * i, &word, 8);
    }
    if (before % 2 == 0 && phase.version.load(std::memory_order_relaxed) == before) break;
  }
  return copy;
}

bool has_dtype(Collective collective) {
  return collective != Collective::None && collective != Collective::Barrier;
}

bool has_reduction(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::ReduceScatter;
}

}  // namespace

std::string describe(const CallFingerprint& fingerprint) {
  std::string text = collective_name(fingerprint.collective);
  text += concat(" #", fingerprint.sequence);
  if (!has_dtype(fingerprint.collective)) return text;
  text += " (";
  if (has_reduction(fingerprint.collective)) {
    text += concat(reduce_op_name(fingerprint.reduce_op), " of ");
  }
  const Shape shape(std::span<const int64_t>(fingerprint.sizes.data(), fingerprint.num_dims));
  text += concat(fingerprint.dtype, " ", shape);
  if (fingerprint.root >= 0) text += concat(" from rank ", fingerprint.root);
  return text + ")";
}

std::string describe_phase(const SharedPhase& phase) {
  const PhaseCopy copy = copy_phase(phase);
  std::string text;
  if (copy.step >= 0) text += concat("step ", copy.step, ", ");
  text += copy.name[0] != '\0' ? copy.name.data() : "start";
  if (copy.bucket >= 0) text += concat(", bucket ", copy.bucket);
  return text;
}

std::string describe_rank(const SharedGroup& group, int rank) {
  const RankSlot& slot = group.slot(rank);
  if (slot.presence.load(std::memory_order_acquire) == Presence::Absent) {
    return concat("rank ", rank, " (never joined the group)");
  }
  return concat("rank ", rank, " (pid ", slot.pid.load(std::memory_order_relaxed),
                ", last phase: ", describe_phase(slot.phase), ")");
}

std::string describe_ranks(const SharedGroup& group, const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + describe_rank(group, rank);
  return text;
}

void store_phase(SharedPhase& shared, const Phase& phase) {
  std::array<char, SharedPhase::kWords * 8> name{};
  const size_t length = ::strnlen(phase.name, name.size() - 1);
  std::memcpy(name.data(), phase.name, length);
  const uint32_t version = shared.version.load(std::memory_order_relaxed);
  shared.version.store(version + 1, std::memory_order_relaxed);
  shared.step.store(phase.step, std::memory_order_release);
  shared.bucket.store(phase.bucket, std::memory_order_release);
  for (size_t i = 0; i < SharedPhase::kWords; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, name.data() + 8 * i, 8);
    shared.name[i].store(word, std::memory_order_release);
  }
  shared.version.store(version + 2, std::memory_order_release);
}

std::string rank_prefix(int rank, int world_size) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return concat("[rank ", rank, "/", world_size, " ", host.data(), "] ");
}

}  // namespace lockstep::dist
