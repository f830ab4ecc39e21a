// Streams: queues of operations, each carried out by a thread of its own.
#pragma once

#include "tests/emulation/runtime/state.h"

struct CUstream_st {
  int device = 0;
  uint32_t number = 0;  ///< its index in a Clock
  unsigned flags = 0;
  int priority = 0;
  bool is_null_stream = false;
  std::deque<lockstep::emulation::QueuedOperation> queue;
  uint64_t enqueued = 0;
  uint64_t done = 0;
  uint64_t wanted = 0;  ///< a host thread waits for this operation
  /// What will have finished after the last operation that was enqueued.
  std::shared_ptr<const lockstep::emulation::Clock> clock =
      std::make_shared<lockstep::emulation::Clock>();
  bool destroyed = false;
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  CUstream_st* stream = nullptr;  ///< null: never recorded
  uint64_t sequence = 0;
  std::shared_ptr<double> recorded_ms = std::make_shared<double>(-1);
  std::shared_ptr<const lockstep::emulation::Clock> clock;
};

namespace lockstep::emulation {

CUstream_st* create_stream(int device, unsigned flags, int priority);
/// The stream behind a handle: null and cudaStreamLegacy are the current device's default stream.
CUstream_st* resolve_stream(cudaStream_t stream);
bool is_valid_stream(cudaStream_t stream);

/// A place in a stream, and what has finished there.
struct Point {
  CUstream_st* stream;
  uint64_t sequence;
  std::shared_ptr<const Clock> clock;
};

struct EnqueueOptions {
  const void* kernel = nullptr;
  std::vector<Dependency> dependencies;
  const Clock* extra_clock = nullptr;  ///< what a recorded event knew
  bool is_host_function = false;
};
/// Appends an operation. It runs after its predecessor in the stream and after `dependencies`.
Point enqueue(cudaStream_t stream, const char* name, std::function<void()> run,
              EnqueueOptions options = {});

/// The host waits for everything in the stream so far, or for one point of it, and then knows what
/// that point knew.
void synchronise_stream(CUstream_st* stream);
void synchronise_event(CUevent_st* event);
void synchronise_device(int device);
/// True when all is done; then the host knows it.
bool query_stream(CUstream_st* stream);
bool query_event(CUevent_st* event);

void merge(Clock& into, const Clock& from);
Clock host_clock(uint64_t* time);

}  // namespace lockstep::emulation
