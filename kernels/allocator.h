// Memory for tensors on the CPU: 64-byte aligned blocks from a cache per thread, because a fresh
// large block costs a page fault per 4 KiB and a training step asks for the same sizes again and
// again.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

inline constexpr int64_t kAlignment = 64;

/// At least nbytes, 64-byte aligned, contents undefined. Throws Error when the system has no
/// memory.
void* cpu_allocate(int64_t nbytes);

/// Gives a block of cpu_allocate(nbytes) back to the calling thread's cache. The cache keeps a
/// bounded amount and returns the rest to the system.
void cpu_deallocate(void* block, int64_t nbytes) noexcept;

/// What the calling thread's cache did so far; tests assert that a steady step adds no misses.
struct AllocatorStats {
  int64_t hits = 0;    ///< served from the cache
  int64_t misses = 0;  ///< served by the system
  int64_t cached_bytes = 0;
};
AllocatorStats cpu_allocator_stats();

}  // namespace lockstep::kernels
