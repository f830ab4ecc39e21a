// The queue of a stream, the thread that serves it, and the host's ways of waiting.
#include "tests/emulation/runtime/streams.h"

#include <algorithm>
#include <chrono>

#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/pool.h"

namespace lockstep::emulation {
namespace {

using Lock = std::unique_lock<std::mutex>;

// A host thread waits for an operation: it and all that it needs must not be delayed any more.
void want(CUstream_st* stream, uint64_t sequence) {
  if (stream->wanted >= sequence) return;
  stream->wanted = sequence;
  for (const QueuedOperation& queued : stream->queue) {
    if (queued.operation.sequence > sequence) break;
    for (const Dependency& d : queued.dependencies) want(d.stream, d.sequence);
  }
}

double delay_ms() {
  Runtime& state = runtime();
  if (state.policy == StreamPolicy::Lazy) return state.lazy_ms;
  if (state.policy == StreamPolicy::Jitter) return static_cast<double>(state.random() % 3000) / 1e3;
  return 0;
}

void wait_until_due(Lock& lock, CUstream_st* stream) {
  Runtime& state = runtime();
  const QueuedOperation& next = stream->queue.front();
  for (const Dependency& d : next.dependencies) {
    state.changed.wait(lock, [&] { return d.stream->done >= d.sequence; });
  }
  const double due_ms = next.enqueued_ms + delay_ms();
  while (stream->wanted <= stream->done && now_ms() < due_ms) {
    state.changed.wait_for(lock,
                           std::chrono::duration<double, std::milli>(due_ms - now_ms() + 0.01));
  }
}

void serve(CUstream_st* stream) {
  prepare_fault_stack();
  current_device = stream->device;
  Runtime& state = runtime();
  Lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&] { return stream->destroyed || !stream->queue.empty(); });
    if (stream->queue.empty()) return;
    wait_until_due(lock, stream);
    QueuedOperation next = std::move(stream->queue.front());
    stream->queue.pop_front();
    lock.unlock();
    current_operation = &next.operation;
    // After a fault nothing runs any more, as on a GPU.
    if (state.sticky == cudaSuccess) next.run();
    current_operation = nullptr;
    next.run = nullptr;
    lock.lock();
    ++stream->done;
    state.changed.notify_all();
  }
}

void wait_for(Lock& lock, CUstream_st* stream, uint64_t sequence) {
  want(stream, sequence);
  runtime().changed.notify_all();
  runtime().changed.wait(lock, [&] { return stream->done >= sequence; });
}

// The legacy default stream waits for every blocking stream of its device, and holds each up.
void add_default_stream_dependencies(CUstream_st* stream, std::vector<Dependency>& dependencies) {
  Runtime& state = runtime();
  if (stream->is_null_stream) {
    for (CUstream_st* other : state.streams) {
      if (other != stream && other->device == stream->device &&
          (other->flags & cudaStreamNonBlocking) == 0) {
        dependencies.push_back({other, other->enqueued});
      }
    }
    return;
  }
  CUstream_st* null_stream = state.devices[stream->device].null_stream;
  if (null_stream != nullptr && (stream->flags & cudaStreamNonBlocking) == 0) {
    dependencies.push_back({null_stream, null_stream->enqueued});
  }
}

// See Note [Clocks].
std::shared_ptr<const Clock> next_clock(CUstream_st* stream, const EnqueueOptions& options) {
  auto clock = std::make_shared<Clock>(*stream->clock);
  merge(*clock, runtime().host_clock);
  if (options.extra_clock != nullptr) merge(*clock, *options.extra_clock);
  for (const Dependency& d : options.dependencies) {
    if (d.sequence == d.stream->enqueued) merge(*clock, *d.stream->clock);
    if (clock->size() <= d.stream->number) clock->resize(d.stream->number + 1);
    uint32_t& known = (*clock)[d.stream->number];
    known = std::max(known, static_cast<uint32_t>(d.sequence));
  }
  if (clock->size() <= stream->number) clock->resize(stream->number + 1);
  (*clock)[stream->number] = static_cast<uint32_t>(stream->enqueued);
  return clock;
}

}  // namespace

void merge(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

Clock host_clock(uint64_t* time) {
  std::lock_guard lock(runtime().mutex);
  *time = runtime().host_time;
  return runtime().host_clock;
}

CUstream_st* create_stream(int device, unsigned flags, int priority) {
  auto* stream = new CUstream_st;  // kept for ever: events may name it after its destruction
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  std::lock_guard lock(runtime().mutex);
  stream->number = runtime().next_stream++;
  runtime().streams.insert(stream);
  std::thread(serve, stream).detach();
  return stream;
}

CUstream_st* resolve_stream(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy) return stream;
  DeviceState& device = runtime().devices[current_device];
  std::lock_guard lock(device.mutex);
  if (device.null_stream == nullptr) {
    CUstream_st* created = create_stream(current_device, cudaStreamDefault, 0);
    std::lock_guard state_lock(runtime().mutex);
    created->is_null_stream = true;
    device.null_stream = created;
  }
  return device.null_stream;
}

bool is_valid_stream(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return true;
  if (stream == cudaStreamPerThread) return false;
  std::lock_guard lock(runtime().mutex);
  return runtime().streams.count(stream) != 0 && !stream->destroyed;
}

Point enqueue(cudaStream_t handle, const char* name, std::function<void()> run,
              EnqueueOptions options) {
  CUstream_st* stream = resolve_stream(handle);
  Runtime& state = runtime();
  std::lock_guard lock(state.mutex);
  add_default_stream_dependencies(stream, options.dependencies);
  ++stream->enqueued;
  stream->clock = next_clock(stream, options);
  QueuedOperation queued;
  queued.operation.id = state.next_operation++;
  queued.operation.stream = stream->number;
  queued.operation.sequence = static_cast<uint32_t>(stream->enqueued);
  queued.operation.enqueued_at = state.host_time++;
  queued.operation.after = stream->clock;
  queued.operation.name = name;
  queued.operation.kernel = options.kernel;
  queued.operation.device = stream->device;
  queued.operation.is_host_function = options.is_host_function;
  queued.run = std::move(run);
  queued.dependencies = std::move(options.dependencies);
  queued.enqueued_ms = now_ms();
  stream->queue.push_back(std::move(queued));
  state.changed.notify_all();
  return {stream, stream->enqueued, stream->clock};
}

void synchronise_stream(CUstream_st* stream) {
  {
    Lock lock(runtime().mutex);
    const auto clock = stream->clock;
    wait_for(lock, stream, stream->enqueued);
    merge(runtime().host_clock, *clock);
    pools_after_synchronisation();
  }
  close_devices();
}

void synchronise_event(CUevent_st* event) {
  {
    Lock lock(runtime().mutex);
    const auto clock = event->clock;
    wait_for(lock, event->stream, event->sequence);
    merge(runtime().host_clock, *clock);
    pools_after_synchronisation();
  }
  close_devices();
}

void synchronise_device(int device) {
  {
    Lock lock(runtime().mutex);
    std::vector<Point> points;
    for (CUstream_st* stream : runtime().streams) {
      if (stream->device != device) continue;
      points.push_back({stream, stream->enqueued, stream->clock});
      want(stream, stream->enqueued);
    }
    for (const Point& point : points) {
      wait_for(lock, point.stream, point.sequence);
      merge(runtime().host_clock, *point.clock);
    }
    pools_after_synchronisation();
  }
  close_devices();
}

bool query_stream(CUstream_st* stream) {
  std::lock_guard lock(runtime().mutex);
  want(stream, stream->enqueued);
  runtime().changed.notify_all();
  if (stream->done < stream->enqueued) return false;
  merge(runtime().host_clock, *stream->clock);
  return true;
}

bool query_event(CUevent_st* event) {
  std::lock_guard lock(runtime().mutex);
  want(event->stream, event->sequence);
  runtime().changed.notify_all();
  if (event->stream->done < event->sequence) return false;
  merge(runtime().host_clock, *event->clock);
  return true;
}

}  // namespace lockstep::emulation
