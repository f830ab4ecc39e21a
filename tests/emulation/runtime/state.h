// The emulated machine: devices, streams, events, pools, and the lock around them.
//
// Note [Clocks]. An operation of stream s with sequence number q is a point (s, q). Each operation
// carries the points that have finished when it starts: those of the operation before it in its
// stream, of the events that its stream waited for, and of whatever the host had waited for when it
// was enqueued. Two operations are ordered when one is among the points of the other. This does not
// depend on which ran first today, so a missing wait is found under every schedule. The host is one
// clock for all threads of the process: what one of them waited for counts for all, because how
// they synchronise among themselves is not seen.
//
// Lock order: kernel mutex, then a device's mutex, then Runtime::mutex.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emulation/control.h"
#include "tests/emulation/runtime/report.h"

namespace lockstep::emulation {

inline constexpr int kMaxDevices = 16;

struct Dependency {
  CUstream_st* stream;
  uint64_t sequence;
};

struct QueuedOperation {
  std::function<void()> run;
  std::vector<Dependency> dependencies;
  Operation operation;
  double enqueued_ms = 0;
};

struct Allocation {
  size_t nbytes;
  bool live;                 ///< its memory is there
  bool released;             ///< cudaFreeAsync was called: no later call may name it
  CUmemPoolHandle_st* pool;  ///< null: cudaMalloc
};

struct DeviceState {
  std::recursive_mutex mutex;
  char* base = nullptr;
  size_t used = 0;  ///< of the address range; addresses are never reused
  int open = 0;     ///< operations that access the memory now
  bool accessible = false;
  std::map<const char*, Allocation>
      allocations;  ///< freed ones stay, so that late uses have a name
  int64_t live_allocations = 0;
  size_t live_bytes = 0;
  std::atomic<size_t> malloc_bytes{0};  ///< of cudaMalloc
  CUstream_st* null_stream = nullptr;
  std::set<int> peers;
  int physical = 0;  ///< its number before CUDA_VISIBLE_DEVICES
  std::vector<std::unique_ptr<CUmemPoolHandle_st>> pools;  ///< the first is the default pool
  CUmemPoolHandle_st* current_pool = nullptr;
};

struct Runtime {
  std::mutex mutex;
  std::condition_variable changed;  ///< anything about streams
  int device_count = 0;
  size_t capacity = 0;
  bool guard = true;  ///< device memory is closed to the host
  DeviceState devices[kMaxDevices];
  std::set<CUstream_st*> streams;
  std::map<const char*, size_t> pinned;
  std::map<const void*, int> dynamic_limits;  ///< cudaFuncAttributeMaxDynamicSharedMemorySize
  uint32_t next_stream = 0;
  uint32_t next_operation = 1;
  uint64_t host_time = 1;
  Clock host_clock;
  StreamPolicy policy = StreamPolicy::Eager;
  int lazy_ms = 20;
  std::minstd_rand random{1};
  OnError on_error = OnError::Abort;
  std::vector<std::string> reports;
  std::atomic<cudaError_t> sticky{cudaSuccess};
  int allocations_until_failure = -1;
  int process = 0;

  Runtime();
};
Runtime& runtime();

extern thread_local int current_device;

/// What every call does first: maps the devices once, refuses to work in a forked child.
cudaError_t ensure_initialised();
/// What every call returns: its own error or the one that a fault left, kept for cudaGetLastError.
cudaError_t finish_call(cudaError_t error);
cudaError_t clear_last_error();
cudaError_t last_error();

double now_ms();

}  // namespace lockstep::emulation

/// The first line of an API function.
#define LOCKSTEP_EMULATION_ENTER()                                           \
  if (const cudaError_t error = ::lockstep::emulation::ensure_initialised(); \
      error != cudaSuccess) {                                                \
    return ::lockstep::emulation::finish_call(error);                        \
  }
