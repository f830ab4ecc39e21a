// Allocation, the map of allocations, and the protection of device memory.
#include "tests/emulation/runtime/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/emulation/check/check.h"
#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/runtime/state.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 512;
constexpr size_t kCanaryBytes = 512;
constexpr unsigned char kCanary = 0xc5;
constexpr unsigned char kUninitialised = 0xff;
constexpr size_t kFirstOffset = size_t{1} << 20;
// Freed memory goes back to the system by whole pages; of the rest this much is overwritten.
constexpr size_t kScrubBytes = size_t{1} << 16;

size_t span_of(size_t nbytes) {
  return (nbytes + kCanaryBytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_closed(const DeviceState& device) { return runtime().guard && !device.accessible; }

void check_canary(const char* block, size_t nbytes) {
  for (size_t i = nbytes; i < span_of(nbytes); ++i) {
    if (static_cast<unsigned char>(block[i]) == kCanary) continue;
    report("memcheck",
           "memory behind " + describe(block) + " was overwritten at offset " + std::to_string(i),
           cudaErrorIllegalAddress);
    return;
  }
}

void return_pages(char* block, size_t nbytes) {
  const auto begin = (reinterpret_cast<uintptr_t>(block) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(block) + nbytes) / kPage * kPage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

void map_devices() {
  Runtime& state = runtime();
  for (int d = 0; d < state.device_count; ++d) {
    void* wanted = reinterpret_cast<void*>(kArenaBase + static_cast<uint64_t>(d) * kArenaBytes);
    void* base = mmap(wanted, kArenaBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (base != wanted) fatal("cannot map the memory of a device at its place");
    state.devices[d].base = static_cast<char*>(base);
    state.devices[d].used = kFirstOffset;
  }
}

int device_of_address(const void* address) {
  const auto value = reinterpret_cast<uint64_t>(address);
  if (value < kArenaBase) return -1;
  const uint64_t device = (value - kArenaBase) / kArenaBytes;
  return device < static_cast<uint64_t>(runtime().device_count) ? static_cast<int>(device) : -1;
}

bool find_region(const void* address, Region* region) {
  const auto* byte = static_cast<const char*>(address);
  const int index = device_of_address(address);
  if (index >= 0) {
    DeviceState& device = runtime().devices[index];
    std::lock_guard lock(device.mutex);
    auto next = device.allocations.upper_bound(byte);
    if (next == device.allocations.begin()) return false;
    const auto& [begin, allocation] = *--next;
    *region = {begin, allocation.nbytes, index, Region::Device,
               allocation.live && !allocation.released};
    return true;
  }
  std::lock_guard lock(runtime().mutex);
  auto next = runtime().pinned.upper_bound(byte);
  if (next == runtime().pinned.begin()) return false;
  const auto& [begin, nbytes] = *--next;
  if (byte >= begin + nbytes) return false;
  *region = {begin, nbytes, -1, Region::Pinned, true};
  return true;
}

Span look_up(const void* address, size_t nbytes) {
  Span span{true, device_of_address(address) >= 0, false, device_of_address(address)};
  Region region;
  if (!find_region(address, &region)) {
    span.valid = !span.on_device;
    return span;
  }
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - region.begin);
  span.pinned = region.kind == Region::Pinned;
  span.valid = region.live && offset + nbytes <= region.nbytes;
  return span;
}

bool peer_access_enabled(int from, int to) {
  return from == to || runtime().devices[from].peers.count(to) != 0;
}

bool allocation_must_fail() {
  std::lock_guard lock(runtime().mutex);
  int& left = runtime().allocations_until_failure;
  return left >= 0 && left-- == 0;
}

cudaError_t allocate_on_device(int index, size_t nbytes, CUmemPoolHandle_st* pool, void** out) {
  DeviceState& device = runtime().devices[index];
  std::lock_guard lock(device.mutex);
  const size_t span = span_of(nbytes);
  if (device.used + span + kPage > kArenaBytes) {
    std::fprintf(stderr, "emulation: device %d has used up its addresses (none is used twice)\n",
                 index);
    return cudaErrorMemoryAllocation;
  }
  char* block = device.base + device.used;
  device.used += span;
  // The first page may hold the end of the block before.
  const size_t first = static_cast<size_t>(block - device.base) / kPage * kPage;
  mprotect(device.base + first, device.used - first, PROT_READ | PROT_WRITE);
  asan_unpoison(block, span);
  std::memset(block, kUninitialised, nbytes);
  std::memset(block + nbytes, kCanary, span - nbytes);
  asan_poison(block + nbytes, span - nbytes);
  if (is_closed(device)) mprotect(device.base + first, device.used - first, PROT_NONE);
  device.allocations[block] = {nbytes, true, false, pool};
  device.live_bytes += nbytes;
  ++device.live_allocations;
  if (pool == nullptr) device.malloc_bytes += nbytes;
  check_alloc(block, nbytes);
  *out = block;
  return cudaSuccess;
}

cudaError_t free_on_device(void* pointer) {
  auto* block = static_cast<char*>(pointer);
  const int index = device_of_address(pointer);
  if (index < 0) return cudaErrorInvalidValue;
  DeviceState& device = runtime().devices[index];
  DeviceAccess access(index);
  std::lock_guard lock(device.mutex);
  const auto found = device.allocations.find(block);
  if (found == device.allocations.end() || !found->second.live) return cudaErrorInvalidValue;
  Allocation& allocation = found->second;
  const size_t nbytes = allocation.nbytes;
  asan_unpoison(block, span_of(nbytes));
  check_canary(block, nbytes);
  std::memset(block, kUninitialised, std::min(nbytes, kScrubBytes));
  asan_poison(block, span_of(nbytes));
  return_pages(block, nbytes);
  allocation.live = false;
  device.live_bytes -= nbytes;
  --device.live_allocations;
  if (allocation.pool == nullptr) device.malloc_bytes -= nbytes;
  check_free(block, nbytes);
  return cudaSuccess;
}

DeviceAccess::DeviceAccess(int device) : device_(device) {
  DeviceState& state = runtime().devices[device];
  std::lock_guard lock(state.mutex);
  ++state.open;
  if (is_closed(state)) mprotect(state.base, state.used, PROT_READ | PROT_WRITE);
  state.accessible = true;
}

DeviceAccess::~DeviceAccess() {
  DeviceState& state = runtime().devices[device_];
  std::lock_guard lock(state.mutex);
  --state.open;
}

void close_devices() {
  Runtime& state = runtime();
  if (!state.guard) return;
  for (int d = 0; d < state.device_count; ++d) {
    DeviceState& device = state.devices[d];
    std::lock_guard lock(device.mutex);
    if (device.open != 0 || !device.accessible) continue;
    mprotect(device.base, device.used, PROT_NONE);
    device.accessible = false;
  }
}

LiveMemory live_memory() {
  LiveMemory total;
  for (DeviceState& device : runtime().devices) {
    std::lock_guard lock(device.mutex);
    total.allocations += device.live_allocations;
    total.nbytes += static_cast<int64_t>(device.live_bytes);
  }
  return total;
}

}  // namespace lockstep::emulation
