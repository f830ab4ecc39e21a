// The API of streams and events.
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/streams.h"

using namespace lockstep::emulation;

namespace {

constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -5;

cudaError_t record(cudaEvent_t event, cudaStream_t handle) {
  if (event == nullptr || !is_valid_stream(handle)) return cudaErrorInvalidResourceHandle;
  if (resolve_stream(handle)->device != event->device) return cudaErrorInvalidResourceHandle;
  count(&Counters::event_records);
  auto recorded_ms = std::make_shared<double>(-1);
  const Point point =
      enqueue(handle, "cudaEventRecord", [recorded_ms] { *recorded_ms = now_ms(); });
  std::lock_guard lock(runtime().mutex);
  event->recorded_ms = recorded_ms;
  event->stream = point.stream;
  event->sequence = point.sequence;
  event->clock = point.clock;
  return cudaSuccess;
}

cudaError_t wait_event(cudaStream_t handle, cudaEvent_t event) {
  if (event == nullptr || !is_valid_stream(handle)) return cudaErrorInvalidResourceHandle;
  count(&Counters::event_waits);
  if (event->stream == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
  EnqueueOptions options;
  options.dependencies = {{event->stream, event->sequence}};
  options.extra_clock = event->clock.get();
  enqueue(
      handle, "cudaStreamWaitEvent", [] {}, std::move(options));
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  LOCKSTEP_EMULATION_ENTER();
  if (stream == nullptr || flags > cudaStreamNonBlocking) return finish_call(cudaErrorInvalidValue);
  *stream = create_stream(current_device, flags, priority);
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLowestPriority);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, kLowestPriority);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  LOCKSTEP_EMULATION_ENTER();
  *lowest = kLowestPriority;
  *highest = kHighestPriority;
  return finish_call(cudaSuccess);
}

// Returns at once; work that is queued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  if (stream == nullptr || !is_valid_stream(stream)) {
    return finish_call(cudaErrorInvalidResourceHandle);
  }
  std::lock_guard lock(runtime().mutex);
  stream->destroyed = true;
  runtime().changed.notify_all();
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_valid_stream(stream)) return finish_call(cudaErrorInvalidResourceHandle);
  count(&Counters::synchronisations);
  synchronise_stream(resolve_stream(stream));
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_valid_stream(stream)) return finish_call(cudaErrorInvalidResourceHandle);
  if (!query_stream(resolve_stream(stream))) return cudaErrorNotReady;
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  LOCKSTEP_EMULATION_ENTER();
  *flags = resolve_stream(stream)->flags;
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  LOCKSTEP_EMULATION_ENTER();
  *priority = resolve_stream(stream)->priority;
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  LOCKSTEP_EMULATION_ENTER();
  *device = resolve_stream(stream)->device;
  return finish_call(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(wait_event(stream, event));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_valid_stream(stream)) return finish_call(cudaErrorInvalidResourceHandle);
  EnqueueOptions options;
  options.is_host_function = true;
  enqueue(
      stream, "cudaLaunchHostFunc", [=] { function(argument); }, std::move(options));
  return finish_call(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  LOCKSTEP_EMULATION_ENTER();
  if (event == nullptr) return finish_call(cudaErrorInvalidValue);
  *event = new CUevent_st;
  (*event)->flags = flags;
  (*event)->device = current_device;
  return finish_call(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  LOCKSTEP_EMULATION_ENTER();
  if (event == nullptr) return finish_call(cudaErrorInvalidResourceHandle);
  delete event;
  return finish_call(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(record(event, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  LOCKSTEP_EMULATION_ENTER();
  if (event == nullptr) return finish_call(cudaErrorInvalidResourceHandle);
  count(&Counters::synchronisations);
  if (event->stream != nullptr) synchronise_event(event);
  return finish_call(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  LOCKSTEP_EMULATION_ENTER();
  if (event == nullptr) return finish_call(cudaErrorInvalidResourceHandle);
  if (event->stream != nullptr && !query_event(event)) return cudaErrorNotReady;
  return finish_call(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t start, cudaEvent_t end) {
  LOCKSTEP_EMULATION_ENTER();
  if (start == nullptr || end == nullptr || start->stream == nullptr || end->stream == nullptr ||
      ((start->flags | end->flags) & cudaEventDisableTiming) != 0) {
    return finish_call(cudaErrorInvalidResourceHandle);
  }
  std::lock_guard lock(runtime().mutex);
  if (start->stream->done < start->sequence || end->stream->done < end->sequence) {
    return cudaErrorNotReady;
  }
  *elapsed_ms = static_cast<float>(*end->recorded_ms - *start->recorded_ms);
  return finish_call(cudaSuccess);
}

}  // extern "C"
