// Launching kernels, what functions allow, and the names of errors.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/emulation/executor/block.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/streams.h"
#include "tests/emulation/runtime/symbols.h"

namespace lockstep::emulation {
namespace {

constexpr size_t kDefaultDynamicLimit = 48 * 1024;

bool is_valid_shape(dim3 grid, dim3 block) {
  const bool empty =
      grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return !empty && threads <= kMaxThreads && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
         grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
}

size_t dynamic_limit(const void* function) {
  std::lock_guard lock(runtime().mutex);
  const auto found = runtime().dynamic_limits.find(function);
  if (found == runtime().dynamic_limits.end()) return kDefaultDynamicLimit;
  return std::max(kDefaultDynamicLimit, static_cast<size_t>(found->second));
}

// A pointer argument must name live memory of this device, of a peer or of pinned host memory. On
// a GPU a wrong one is a fault when the kernel uses it, so it is told even if it would not.
void check_arguments(const void* function, const ArgumentView* arguments, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (!arguments[i].is_pointer) continue;
    const void* pointer;
    std::memcpy(&pointer, arguments[i].value, sizeof pointer);
    if (pointer == nullptr) continue;
    Region region;
    const bool found = find_region(pointer, &region);
    const int device = device_of_address(pointer);
    const bool foreign = device >= 0 && !peer_access_enabled(current_device, device);
    if (found && region.live && !foreign) continue;
    report("memcheck",
           "argument " + std::to_string(i) + " of kernel " + function_name(function) +
               " on device " + std::to_string(current_device) + " is " + describe(pointer),
           cudaErrorIllegalAddress);
  }
}

cudaError_t check_config(const cudaLaunchConfig_t& config, const void* function) {
  if (!is_valid_stream(config.stream)) return cudaErrorInvalidResourceHandle;
  const int device = resolve_stream(config.stream)->device;
  if (device != current_device) {
    std::fprintf(stderr, "emulation: launch on a stream of device %d while device %d is current\n",
                 device, current_device);
    return cudaErrorInvalidResourceHandle;
  }
  if (!is_valid_shape(config.gridDim, config.blockDim)) return cudaErrorInvalidConfiguration;
  if (config.dynamicSmemBytes > dynamic_limit(function)) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != cudaLaunchAttributePriority) return cudaErrorNotSupported;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, const void* function,
                           std::function<void()> body, const ArgumentView* arguments,
                           unsigned count) {
  LOCKSTEP_EMULATION_ENTER();
  if (runtime().sticky != cudaSuccess) return finish_call(cudaSuccess);
  if (const cudaError_t error = check_config(config, function); error != cudaSuccess) {
    return finish_call(error);
  }
  check_arguments(function, arguments, count);
  count_launch(function);
  auto launch = std::make_shared<KernelLaunch>(
      KernelLaunch{config.gridDim, config.blockDim, static_cast<unsigned>(config.dynamicSmemBytes),
                   std::move(body)});
  EnqueueOptions options;
  options.kernel = function;
  auto run = [launch, device = current_device] {
    std::vector<std::unique_ptr<DeviceAccess>> open;
    open.push_back(std::make_unique<DeviceAccess>(device));
    for (int peer : runtime().devices[device].peers) {
      open.push_back(std::make_unique<DeviceAccess>(peer));
    }
    run_kernel(*launch);
  };
  enqueue(config.stream, "kernel", std::move(run), std::move(options));
  return cudaSuccess;  // what goes wrong in the kernel surfaces later, as on a GPU
}

}  // namespace lockstep::emulation

using namespace lockstep::emulation;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  LOCKSTEP_EMULATION_ENTER();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return finish_call(cudaSuccess);
  if (value < 0 || value > static_cast<int>(kMaxDynamicShared)) {
    return finish_call(cudaErrorInvalidValue);
  }
  std::lock_guard lock(runtime().mutex);
  runtime().dynamic_limits[function] = value;
  return finish_call(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  LOCKSTEP_EMULATION_ENTER();
  *attributes = {};
  attributes->maxThreadsPerBlock = static_cast<int>(kMaxThreads);
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_limit(function));
  return finish_call(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int threads, size_t, unsigned) {
  LOCKSTEP_EMULATION_ENTER();
  constexpr int kThreadsOfMultiprocessor = 2048;
  *blocks = threads > 0 ? kThreadsOfMultiprocessor / threads : 0;
  return finish_call(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                dynamic_bytes, 0);
}

#define LOCKSTEP_EMULATION_ERROR(code, text) \
  case code:                                 \
    return name ? #code : text;
static const char* error_text(cudaError_t error, bool name) {
  switch (error) {
    LOCKSTEP_EMULATION_ERROR(cudaSuccess, "no error")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInvalidValue, "invalid argument")
    LOCKSTEP_EMULATION_ERROR(cudaErrorMemoryAllocation, "out of memory")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInitializationError, "initialization error")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")
    LOCKSTEP_EMULATION_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInvalidDevice, "invalid device ordinal")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle")
    LOCKSTEP_EMULATION_ERROR(cudaErrorNotReady, "device not ready")
    LOCKSTEP_EMULATION_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered")
    LOCKSTEP_EMULATION_ERROR(cudaErrorMisalignedAddress, "misaligned address")
    LOCKSTEP_EMULATION_ERROR(cudaErrorLaunchFailure, "unspecified launch failure")
    LOCKSTEP_EMULATION_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated")
    LOCKSTEP_EMULATION_ERROR(cudaErrorNotSupported, "operation not supported")
    LOCKSTEP_EMULATION_ERROR(cudaErrorNotPermitted, "operation not permitted")
    LOCKSTEP_EMULATION_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")
    LOCKSTEP_EMULATION_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")
    LOCKSTEP_EMULATION_ERROR(cudaErrorInsufficientDriver,
                             "CUDA driver version is insufficient for CUDA runtime version")
    default:
      return name ? "cudaErrorUnknown" : "unknown error";
  }
}
#undef LOCKSTEP_EMULATION_ERROR

const char* cudaGetErrorName(cudaError_t error) { return error_text(error, true); }
const char* cudaGetErrorString(cudaError_t error) { return error_text(error, false); }

}  // extern "C"
