// Devices: how many, which is current, what they are; and the error that each call leaves.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/block.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/pool.h"
#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/runtime/streams.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {

thread_local int current_device = 0;

namespace {

thread_local cudaError_t last_call_error = cudaSuccess;

// The devices that CUDA_VISIBLE_DEVICES leaves, in its order; as with CUDA, a bad entry ends it.
std::vector<int> visible_devices(int physical_count) {
  std::vector<int> visible;
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    for (int d = 0; d < physical_count; ++d) visible.push_back(d);
    return visible;
  }
  std::istringstream list(setting_word("CUDA_VISIBLE_DEVICES"));
  for (std::string entry; std::getline(list, entry, ',');) {
    char* end = nullptr;
    const long number = std::strtol(entry.c_str(), &end, 10);
    if (end == entry.c_str() || *end != '\0' || number < 0 || number >= physical_count) break;
    visible.push_back(static_cast<int>(number));
  }
  return visible;
}

bool is_device(int device) { return device >= 0 && device < runtime().device_count; }

void fill_properties(cudaDeviceProp& p, int device) {
  const int physical = runtime().devices[device].physical;
  p = {};
  std::snprintf(p.name, sizeof p.name, "emulated device %d", physical);
  // The same in every process, so that two ranks on one device can find out.
  std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "emulated-gpu-%02d", physical);
  p.totalGlobalMem = runtime().capacity;
  p.sharedMemPerBlock = 48 * 1024;
  p.sharedMemPerBlockOptin = kMaxDynamicShared;
  p.sharedMemPerMultiprocessor = 228 * 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.warpSize = static_cast<int>(kWarpSize);
  p.maxThreadsPerBlock = static_cast<int>(kMaxThreads);
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.multiProcessorCount = 4;
  p.major = 9;
  p.minor = 0;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.unifiedAddressing = 1;
  p.concurrentKernels = 1;
  p.asyncEngineCount = 2;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.memoryPoolsSupported = 1;
  p.pciBusID = physical + 1;
}

bool attribute_value(cudaDeviceAttr attribute, const cudaDeviceProp& p, int* value) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      return true;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      return true;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = p.maxBlocksPerMultiProcessor;
      return true;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      return true;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return true;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      return true;
    case cudaDevAttrMemoryPoolsSupported:
      *value = p.memoryPoolsSupported;
      return true;
    default:
      return false;
  }
}

}  // namespace

Runtime::Runtime() : process(getpid()) {
  const int physical = std::clamp(setting("LOCKSTEP_EMU_DEVICES", 2), 0, kMaxDevices);
  const std::vector<int> visible = visible_devices(physical);
  device_count = static_cast<int>(std::min<size_t>(visible.size(), kMaxDevices));
  for (int d = 0; d < device_count; ++d) devices[d].physical = visible[static_cast<size_t>(d)];
  capacity = static_cast<size_t>(setting("LOCKSTEP_EMU_MEMORY_MB", 2048)) << 20;
  guard = setting("LOCKSTEP_EMU_GUARD", 1) != 0;
  const std::string word = setting_word("LOCKSTEP_EMU_STREAMS");
  if (word == "lazy") policy = StreamPolicy::Lazy;
  if (word == "jitter") policy = StreamPolicy::Jitter;
  random.seed(static_cast<unsigned>(setting("LOCKSTEP_EMU_SEED", 1)));
}

Runtime& runtime() {
  static auto* state = new Runtime;  // threads of streams outlive main
  return *state;
}

cudaError_t ensure_initialised() {
  static std::once_flag once;
  std::call_once(once, [] {
    map_devices();
    create_default_pools();
    install_fault_handler();
  });
  if (getpid() != runtime().process) return cudaErrorInitializationError;  // as CUDA after fork()
  if (runtime().device_count == 0) return cudaErrorNoDevice;
  if (current_operation != nullptr && current_operation->is_host_function) {
    return cudaErrorNotPermitted;  // a host function in a stream may not call CUDA
  }
  prepare_fault_stack();
  return cudaSuccess;
}

cudaError_t finish_call(cudaError_t error) {
  if (error == cudaSuccess) error = runtime().sticky;
  if (error != cudaSuccess) last_call_error = error;
  return error;
}

cudaError_t last_error() {
  const cudaError_t sticky = runtime().sticky;
  return sticky != cudaSuccess ? sticky : last_call_error;
}

cudaError_t clear_last_error() {
  const cudaError_t error = last_error();
  last_call_error = cudaSuccess;
  return error;
}

double now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

void set_on_error(OnError policy) {
  std::lock_guard lock(runtime().mutex);
  runtime().on_error = policy;
}

std::vector<std::string> take_reports() {
  std::lock_guard lock(runtime().mutex);
  return std::exchange(runtime().reports, {});
}

void reset_device_errors() {
  check_forget_reports();
  runtime().sticky = cudaSuccess;
  last_call_error = cudaSuccess;
}

void set_stream_policy(StreamPolicy policy, int lazy_ms) {
  std::lock_guard lock(runtime().mutex);
  runtime().policy = policy;
  runtime().lazy_ms = lazy_ms;
}

void fail_allocation_after(int n) {
  std::lock_guard lock(runtime().mutex);
  runtime().allocations_until_failure = n;
}

Variant variant() {
  if (kAsan) return Variant::Asan;
  return check_is_linked() ? Variant::Check : Variant::Plain;
}

}  // namespace lockstep::emulation

using namespace lockstep::emulation;

extern "C" {

cudaError_t cudaGetDeviceCount(int* device_count) {
  const cudaError_t error = ensure_initialised();
  *device_count = error == cudaErrorNoDevice ? 0 : runtime().device_count;
  return finish_call(error);
}

cudaError_t cudaSetDevice(int device) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_device(device)) return finish_call(cudaErrorInvalidDevice);
  current_device = device;
  return finish_call(cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  LOCKSTEP_EMULATION_ENTER();
  *device = current_device;
  return finish_call(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_device(device)) return finish_call(cudaErrorInvalidDevice);
  fill_properties(*properties, device);
  return finish_call(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_device(device)) return finish_call(cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  fill_properties(properties, device);
  const bool known = attribute_value(attribute, properties, value);
  return finish_call(known ? cudaSuccess : cudaErrorNotSupported);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_device(device)) return finish_call(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0",
                static_cast<unsigned>(runtime().devices[device].physical + 1));
  return finish_call(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  LOCKSTEP_EMULATION_ENTER();
  *can = is_device(device) && is_device(peer) && device != peer ? 1 : 0;
  return finish_call(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_device(peer) || peer == current_device) return finish_call(cudaErrorInvalidDevice);
  const bool added = runtime().devices[current_device].peers.insert(peer).second;
  return finish_call(added ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  LOCKSTEP_EMULATION_ENTER();
  const bool removed = runtime().devices[current_device].peers.erase(peer) != 0;
  return finish_call(removed ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

cudaError_t cudaDeviceSynchronize() {
  LOCKSTEP_EMULATION_ENTER();
  count(&Counters::synchronisations);
  synchronise_device(current_device);
  return finish_call(cudaSuccess);
}

cudaError_t cudaDeviceReset() {
  LOCKSTEP_EMULATION_ENTER();
  synchronise_device(current_device);
  reset_device_errors();
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return clear_last_error(); }
cudaError_t cudaPeekAtLastError() { return last_error(); }

}  // extern "C"
