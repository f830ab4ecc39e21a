// cudaMalloc, cudaHostAlloc, copies and fills.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/executor.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/pool.h"
#include "tests/emulation/runtime/streams.h"

namespace lockstep::emulation {
namespace {

constexpr size_t kPage = 4096;
size_t whole_pages(size_t nbytes) { return (nbytes + kPage - 1) / kPage * kPage; }

cudaError_t allocate(void** out, size_t nbytes) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  count(&Counters::mallocs);
  if (nbytes == 0) return cudaSuccess;
  if (allocation_must_fail()) return cudaErrorMemoryAllocation;
  const DeviceState& device = runtime().devices[current_device];
  if (device.malloc_bytes + pool_bytes_reserved(current_device) + nbytes > runtime().capacity) {
    return cudaErrorMemoryAllocation;
  }
  return allocate_on_device(current_device, nbytes, nullptr, out);
}

cudaError_t deallocate(void* pointer) {
  count(&Counters::frees);
  if (pointer == nullptr) return cudaSuccess;
  Region region;
  const int device = device_of_address(pointer);
  if (device < 0 || !find_region(pointer, &region) || region.begin != pointer || !region.live) {
    return cudaErrorInvalidValue;
  }
  count(&Counters::synchronisations);  // cudaFree waits for the device
  synchronise_device(device);
  CUmemPoolHandle_st* pool = nullptr;
  {
    std::lock_guard lock(runtime().devices[device].mutex);
    pool = runtime().devices[device].allocations[region.begin].pool;
  }
  const cudaError_t error = free_on_device(pointer);
  if (error == cudaSuccess && pool != nullptr) return_to_pool(pool, region.nbytes);
  return error;
}

void explain_copy(const char* problem, size_t nbytes, const void* destination, const void* source) {
  std::fprintf(stderr, "emulation: cudaMemcpy of %zu bytes %s: destination is %s, source is %s\n",
               nbytes, problem, describe(destination).c_str(), describe(source).c_str());
}

bool kind_fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    default:
      return to_device && from_device;
  }
}

void count_copy(bool to_device, bool from_device, size_t nbytes) {
  count(&Counters::copies);
  const auto amount = static_cast<int64_t>(nbytes);
  if (to_device && from_device) count(&Counters::bytes_on_device, amount);
  if (to_device && !from_device) count(&Counters::bytes_to_device, amount);
  if (!to_device && from_device) count(&Counters::bytes_to_host, amount);
}

struct Copy {
  void* destination;
  const void* source;
  size_t nbytes;
  Span to;
  Span from;
};

void run_copy(const Copy& copy) {
  std::unique_ptr<DeviceAccess> open_to, open_from;
  if (copy.to.on_device) open_to = std::make_unique<DeviceAccess>(copy.to.device);
  if (copy.from.on_device) open_from = std::make_unique<DeviceAccess>(copy.from.device);
  {
    std::lock_guard lock(kernel_mutex());
    // What is copied within the device may have holes; what comes to the host must be something.
    check_range(copy.source, copy.nbytes,
                copy.to.on_device ? RangeAccess::Read : RangeAccess::ReadInitialised);
    check_range(copy.destination, copy.nbytes, RangeAccess::Write);
    if (copy.from.on_device && copy.to.on_device) {
      check_copy_initialised(copy.destination, copy.source, copy.nbytes);
    }
  }
  std::memmove(copy.destination, copy.source, copy.nbytes);
}

cudaError_t enqueue_copy(void* destination, const void* source, size_t nbytes, cudaMemcpyKind kind,
                         cudaStream_t stream, bool asynchronous) {
  if (!is_valid_stream(stream)) return cudaErrorInvalidResourceHandle;
  if (nbytes == 0) return cudaSuccess;
  if (destination == nullptr || source == nullptr) return cudaErrorInvalidValue;
  Copy copy{destination, source, nbytes, look_up(destination, nbytes), look_up(source, nbytes)};
  if (!copy.to.valid || !copy.from.valid) {
    explain_copy("leaves an allocation", nbytes, destination, source);
    return cudaErrorInvalidValue;
  }
  if (!kind_fits(kind, copy.to.on_device, copy.from.on_device)) {
    explain_copy("is of another kind", nbytes, destination, source);
    return cudaErrorInvalidMemcpyDirection;
  }
  count_copy(copy.to.on_device, copy.from.on_device, nbytes);
  std::shared_ptr<void> staged;
  if (asynchronous && !copy.from.on_device && !copy.from.pinned) {
    // A pageable source is read before the call returns.
    staged.reset(std::malloc(nbytes), std::free);
    std::memcpy(staged.get(), source, nbytes);
    copy.source = staged.get();
  }
  const Point point = enqueue(stream, "cudaMemcpy", [copy, staged] { run_copy(copy); });
  const bool pageable_target = !copy.to.on_device && !copy.to.pinned;
  if (!asynchronous || pageable_target) {
    count(&Counters::synchronisations);
    synchronise_stream(point.stream);
  }
  return cudaSuccess;
}

cudaError_t enqueue_fill(void* destination, int value, size_t nbytes, cudaStream_t stream) {
  if (!is_valid_stream(stream)) return cudaErrorInvalidResourceHandle;
  if (nbytes == 0) return cudaSuccess;
  if (destination == nullptr) return cudaErrorInvalidValue;
  const Span span = look_up(destination, nbytes);
  if (!span.valid || !span.on_device) return cudaErrorInvalidValue;
  count(&Counters::bytes_set, static_cast<int64_t>(nbytes));
  enqueue(stream, "cudaMemset", [destination, value, nbytes, device = span.device] {
    DeviceAccess access(device);
    {
      std::lock_guard lock(kernel_mutex());
      check_range(destination, nbytes, RangeAccess::Write);
    }
    std::memset(destination, value, nbytes);
  });
  return cudaSuccess;
}

cudaError_t allocate_host(void** out, size_t nbytes) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  count(&Counters::host_mallocs);
  if (nbytes == 0) return cudaSuccess;
  void* block = mmap(nullptr, whole_pages(nbytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return cudaErrorMemoryAllocation;
  std::memset(block, 0xff, nbytes);
  {
    std::lock_guard lock(runtime().mutex);
    runtime().pinned[static_cast<char*>(block)] = nbytes;
  }
  check_alloc(block, nbytes);
  *out = block;
  return cudaSuccess;
}

cudaError_t deallocate_host(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  size_t nbytes = 0;
  {
    std::lock_guard lock(runtime().mutex);
    const auto found = runtime().pinned.find(static_cast<char*>(pointer));
    if (found == runtime().pinned.end()) return cudaErrorInvalidValue;
    nbytes = found->second;
  }
  // cudaFreeHost waits for every device, since any of them may use the memory.
  count(&Counters::synchronisations);
  for (int d = 0; d < runtime().device_count; ++d) synchronise_device(d);
  {
    std::lock_guard lock(runtime().mutex);
    runtime().pinned.erase(static_cast<char*>(pointer));
  }
  check_free(pointer, nbytes);
  munmap(pointer, whole_pages(nbytes));
  return cudaSuccess;
}

}  // namespace
}  // namespace lockstep::emulation

using namespace lockstep::emulation;

extern "C" {

cudaError_t cudaMalloc(void** out, size_t nbytes) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(allocate(out, nbytes));
}

cudaError_t cudaFree(void* pointer) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(deallocate(pointer));
}

cudaError_t cudaHostAlloc(void** out, size_t nbytes, unsigned) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(allocate_host(out, nbytes));
}

cudaError_t cudaMallocHost(void** out, size_t nbytes) { return cudaHostAlloc(out, nbytes, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(deallocate_host(pointer));
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  LOCKSTEP_EMULATION_ENTER();
  *total = runtime().capacity;
  *available = runtime().capacity - runtime().devices[current_device].malloc_bytes -
               pool_bytes_reserved(current_device);
  return finish_call(cudaSuccess);
}

cudaError_t cudaMemcpy(void* destination, const void* source, size_t nbytes, cudaMemcpyKind kind) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(enqueue_copy(destination, source, nbytes, kind, nullptr, false));
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t nbytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(enqueue_copy(destination, source, nbytes, kind, stream, true));
}

cudaError_t cudaMemcpyPeerAsync(void* destination, int, const void* source, int, size_t nbytes,
                                cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(
      enqueue_copy(destination, source, nbytes, cudaMemcpyDeviceToDevice, stream, true));
}

cudaError_t cudaMemsetAsync(void* destination, int value, size_t nbytes, cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(enqueue_fill(destination, value, nbytes, stream));
}

// On device memory it does not wait for the device: the documentation says so.
cudaError_t cudaMemset(void* destination, int value, size_t nbytes) {
  return cudaMemsetAsync(destination, value, nbytes, nullptr);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  LOCKSTEP_EMULATION_ENTER();
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -1;
  attributes->hostPointer = const_cast<void*>(pointer);
  Region region;
  if (find_region(pointer, &region) && region.live) {
    const bool on_device = region.kind == Region::Device;
    attributes->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = on_device ? region.device : 0;
    attributes->devicePointer = const_cast<void*>(pointer);
    if (on_device) attributes->hostPointer = nullptr;
  }
  return finish_call(cudaSuccess);
}

}  // extern "C"
