// Pools of the stream-ordered allocator, as accounts: how much a pool holds, how much of that is in
// use, and from which point of which stream on a freed piece may be used again.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <vector>

struct CUmemPoolHandle_st {
  int device = 0;
  uint64_t release_threshold = 0;
  std::atomic<uint64_t> reserved{0};
  uint64_t used = 0;
  uint64_t reserved_high = 0;
  uint64_t used_high = 0;

  /// Bytes that are free for whoever comes after operation `sequence` of stream `stream`.
  struct Free {
    uint64_t nbytes;
    uint32_t stream;
    uint32_t sequence;
  };
  std::vector<Free> free;
};

namespace lockstep::emulation {

/// Creates the default pool of each device.
void create_default_pools();
uint64_t pool_bytes_reserved(int device);
/// The host has waited: pools give back what they hold above their threshold. Called with
/// Runtime::mutex held.
void pools_after_synchronisation();
/// cudaFree of memory that came from a pool.
void return_to_pool(CUmemPoolHandle_st* pool, uint64_t nbytes);

}  // namespace lockstep::emulation
