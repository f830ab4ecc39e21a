// Offsets of the parts of a group's memory.
#include "dist/shm_layout.h"

#include <cstring>
#include <utility>

#include "core/base/fault.h"
#include "dist/futex.h"
#include "dist/shared_memory.h"

namespace lockstep::dist {
namespace {

int64_t control_bytes(int world_size) {
  return round_to_pages(static_cast<int64_t>(sizeof(GroupHeader)) +
                        world_size * static_cast<int64_t>(sizeof(RankSlot)));
}

}  // namespace

const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::None:
      return "nothing";
    case Collective::AllReduce:
      return "all_reduce";
    case Collective::Broadcast:
      return "broadcast";
    case Collective::AllGather:
      return "all_gather";
    case Collective::ReduceScatter:
      return "reduce_scatter";
    case Collective::Barrier:
      return "barrier";
    case Collective::Allocate:
      return "allocate";
  }
  return "?";
}

SharedGroup::SharedGroup(std::shared_ptr<std::byte> memory, int world_size)
    : memory_(std::move(memory)), world_size_(world_size) {}

int64_t SharedGroup::nbytes(int world_size) {
  return control_bytes(world_size) + 2 * world_size * kChunkBytes;
}

// The file begins as zero bytes, which are the initial values of every field but the phase's -1.
GroupHeader& SharedGroup::header() const { return *reinterpret_cast<GroupHeader*>(memory_.get()); }

RankSlot& SharedGroup::slot(int rank) const {
  std::byte* slots = memory_.get() + sizeof(GroupHeader);
  return reinterpret_cast<RankSlot*>(slots)[rank];
}

std::byte* SharedGroup::staging(int rank, uint32_t parity) const {
  return memory_.get() + control_bytes(world_size_) + (2 * rank + parity) * kChunkBytes;
}

bool SharedGroup::failed() const {
  return header().failure.state.load(std::memory_order_relaxed) != Failure::kNone;
}

void SharedGroup::fail(int reporter, ErrorKind kind, const std::string& text) const noexcept {
  Failure& failure = header().failure;
  uint32_t expected = Failure::kNone;
  if (failure.state.compare_exchange_strong(expected, Failure::kWriting)) {
    fault_point("reporting", reporter);
    failure.kind = static_cast<int32_t>(kind);
    failure.reporter = reporter;
    const size_t length = std::min(text.size(), failure.text.size() - 1);
    std::memcpy(failure.text.data(), text.data(), length);
    failure.text[length] = '\0';
    failure.state.store(Failure::kSet);
  }
  wake();
}

void SharedGroup::wake() const noexcept {
  ++header().wake_word;
  if (header().sleepers.load() != 0) futex_wake_all(header().wake_word);
}

}  // namespace lockstep::dist
