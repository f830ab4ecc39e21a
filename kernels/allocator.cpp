// Size classes are an eighth of a power of two apart, so a block wastes at most 12.5%.
#include "kernels/allocator.h"

#include <algorithm>
#include <bit>
#include <new>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/base/sanitizer.h"

namespace lockstep::kernels {
namespace {

constexpr bool kCaching = !kSanitized;

/// The cache of one thread holds at most this much; beyond it, blocks go back to the system.
constexpr int64_t kMaxCachedBytes = int64_t{512} << 20;

constexpr std::align_val_t kAlign{static_cast<size_t>(kAlignment)};

int64_t round_up(int64_t nbytes) {
  if (nbytes <= kAlignment) return kAlignment;
  const auto size = static_cast<uint64_t>(nbytes);
  const uint64_t step = std::max<uint64_t>(std::bit_floor(size) / 8, kAlignment);
  return static_cast<int64_t>((size + step - 1) / step * step);
}

struct Cache {
  std::unordered_map<int64_t, std::vector<void*>> blocks;
  AllocatorStats stats;
  bool alive = true;

  ~Cache() {
    alive = false;
    for (auto& [nbytes, list] : blocks) {
      for (void* block : list) ::operator delete(block, kAlign);
    }
  }
};

thread_local Cache t_cache;

}  // namespace

void* cpu_allocate(int64_t nbytes) {
  LOCKSTEP_CHECK(nbytes >= 0, "allocate: negative size ", nbytes);
  const int64_t rounded = round_up(nbytes);
  if (kCaching && t_cache.alive) {
    auto& list = t_cache.blocks[rounded];
    if (!list.empty()) {
      void* block = list.back();
      list.pop_back();
      t_cache.stats.cached_bytes -= rounded;
      ++t_cache.stats.hits;
      return block;
    }
  }
  void* block = ::operator new(static_cast<size_t>(rounded), kAlign, std::nothrow);
  LOCKSTEP_CHECK(block != nullptr, "allocate: the system has no ", nbytes,
                 " bytes for a tensor; use a smaller batch or model");
  ++t_cache.stats.misses;
  return block;
}

void cpu_deallocate(void* block, int64_t nbytes) noexcept {
  const int64_t rounded = round_up(nbytes);
  if (kCaching && t_cache.alive && t_cache.stats.cached_bytes + rounded <= kMaxCachedBytes) {
    try {
      t_cache.blocks[rounded].push_back(block);
      t_cache.stats.cached_bytes += rounded;
      return;
    } catch (...) {  // no memory for the list: fall through to the system
    }
  }
  ::operator delete(block, kAlign);
}

AllocatorStats cpu_allocator_stats() { return t_cache.stats; }

}  // namespace lockstep::kernels
