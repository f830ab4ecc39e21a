// What a test may do to the emulated devices: choose schedules, read counters, collect reports
// instead of aborting, make allocations fail. Never used by the product.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::emulation {

/// Abort: print the report and abort(), so that a bug cannot pass unseen (the default).
/// Sticky: keep it for take_reports() and make the device fail, as a GPU does after a fault.
enum class OnError { Abort, Sticky };
void set_on_error(OnError policy);
std::vector<std::string> take_reports();
/// Clears the error that a fault left behind; a real GPU needs a new process for that.
void reset_device_errors();

/// The order in which the threads of a block run between two barriers.
enum class ThreadOrder { Ascending, Descending, Random };
void set_thread_order(ThreadOrder order, unsigned seed = 1);

/// When work of a stream runs. Eager: as soon as its dependencies are done. Lazy: not before a host
/// thread waits for it, or lazy_ms passed; shows forgotten synchronisation. Jitter: after a random
/// time of up to 3 ms.
enum class StreamPolicy { Eager, Lazy, Jitter };
void set_stream_policy(StreamPolicy policy, int lazy_ms = 20);

/// The n-th allocation of device memory from now on fails (0: the next one); -1: none does.
void fail_allocation_after(int n);

/// What the process asked of its devices since it started. All are counted when the host makes the
/// call, so they do not depend on the schedule, except for those of kernels' own accesses.
struct Counters {
  int64_t launches = 0;
  int64_t library_calls = 0;  ///< cuBLAS and NCCL operations enqueued
  int64_t copies = 0;
  int64_t bytes_to_device = 0;
  int64_t bytes_to_host = 0;
  int64_t bytes_on_device = 0;  ///< device to device, peers included
  int64_t bytes_set = 0;
  int64_t synchronisations = 0;  ///< calls that make the host wait, the implicit ones included
  int64_t mallocs = 0;
  int64_t frees = 0;
  int64_t host_mallocs = 0;
  int64_t async_mallocs = 0;
  int64_t async_frees = 0;
  int64_t pool_growths = 0;  ///< times that a pool took memory from the device
  int64_t pool_growth_bytes = 0;
  int64_t pool_shrinks = 0;  ///< times that a pool gave memory back
  int64_t event_records = 0;
  int64_t event_waits = 0;
  int64_t barriers = 0;
  int64_t warp_collectives = 0;
  int64_t kernel_bytes_read = 0;     ///< global memory, as requested; check build only
  int64_t kernel_bytes_written = 0;  ///< likewise
  int64_t library_bytes_read = 0;    ///< the operands of matrix products and collectives
  int64_t library_bytes_written = 0;

  friend bool operator==(const Counters&, const Counters&) = default;
};
Counters counters();
Counters operator-(const Counters& after, const Counters& before);

/// Launches of each kernel so far, by demangled name.
std::vector<std::pair<std::string, int64_t>> kernel_launches();

/// Memory that is allocated now, over all devices (pools: what is in use).
struct LiveMemory {
  int64_t allocations = 0;
  int64_t nbytes = 0;
};
LiveMemory live_memory();

/// Which build this is linked with.
enum class Variant { Plain, Asan, Check };
Variant variant();

}  // namespace lockstep::emulation
