// cudaMallocAsync and its pools.
//
// The account is kept when the host makes the call, so it is the same under every schedule. A piece
// that was freed in a stream may be used again by that stream at once, and by another stream when
// that is known to come later (an event, or a wait of the host). A new allocation may be put
// together from several pieces: a real pool can do no better, and may fragment.
#include "tests/emulation/runtime/pool.h"

#include <algorithm>

#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/executor.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/streams.h"

namespace lockstep::emulation {
namespace {

constexpr uint64_t kGranularity = 512;
constexpr uint64_t kGrowth = uint64_t{2} << 20;  // what a pool asks the device for

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

bool comes_after(const Clock& clock, const CUmemPoolHandle_st::Free& piece) {
  return piece.stream < clock.size() && clock[piece.stream] >= piece.sequence;
}

// Removes up to nbytes of pieces that are free at this point; returns how much was found.
uint64_t take_free(CUmemPoolHandle_st& pool, const Clock& clock, uint64_t nbytes) {
  uint64_t taken = 0;
  for (auto& piece : pool.free) {
    if (!comes_after(clock, piece) && piece.sequence != 0) continue;
    const uint64_t part = std::min(piece.nbytes, nbytes - taken);
    piece.nbytes -= part;
    taken += part;
  }
  std::erase_if(pool.free, [](const auto& piece) { return piece.nbytes == 0; });
  return taken;
}

cudaError_t grow(CUmemPoolHandle_st& pool, uint64_t missing) {
  Runtime& state = runtime();
  const uint64_t growth = round_up(missing, kGrowth);
  const DeviceState& device = state.devices[pool.device];
  if (device.malloc_bytes + pool_bytes_reserved(pool.device) + growth > state.capacity) {
    return cudaErrorMemoryAllocation;
  }
  pool.reserved += growth;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved.load());
  if (growth > missing) pool.free.push_back({growth - missing, 0, 0});  // sequence 0: for everybody
  count(&Counters::pool_growths);
  count(&Counters::pool_growth_bytes, static_cast<int64_t>(growth));
  return cudaSuccess;
}

cudaError_t take_from_pool(CUmemPoolHandle_st& pool, CUstream_st* stream, uint64_t nbytes) {
  std::lock_guard lock(runtime().mutex);
  Clock now = *stream->clock;
  merge(now, runtime().host_clock);
  const uint64_t taken = take_free(pool, now, nbytes);
  if (taken < nbytes) {
    if (const cudaError_t error = grow(pool, nbytes - taken); error != cudaSuccess) {
      if (taken > 0)
        pool.free.push_back(
            {taken, stream->number, stream->clock->empty() ? 0 : (*stream->clock)[stream->number]});
      return error;
    }
  }
  pool.used += nbytes;
  pool.used_high = std::max(pool.used_high, pool.used);
  return cudaSuccess;
}

void release_unused(CUmemPoolHandle_st& pool, const Clock& clock, uint64_t keep) {
  if (pool.reserved <= keep) return;
  const uint64_t released = take_free(pool, clock, pool.reserved - keep);
  if (released == 0) return;
  pool.reserved -= released;
  count(&Counters::pool_shrinks);
}

cudaError_t allocate_async(void** out, size_t nbytes, CUmemPoolHandle_st* pool,
                           cudaStream_t handle) {
  if (out == nullptr || pool == nullptr) return cudaErrorInvalidValue;
  if (!is_valid_stream(handle)) return cudaErrorInvalidResourceHandle;
  *out = nullptr;
  count(&Counters::async_mallocs);
  if (nbytes == 0) return cudaSuccess;
  if (allocation_must_fail()) return cudaErrorMemoryAllocation;
  CUstream_st* stream = resolve_stream(handle);
  if (const auto error = take_from_pool(*pool, stream, round_up(nbytes, kGranularity));
      error != cudaSuccess) {
    return error;
  }
  if (const auto error = allocate_on_device(pool->device, nbytes, pool, out);
      error != cudaSuccess) {
    return error;
  }
  // A use that does not come after this point of the stream is a use before the allocation.
  enqueue(stream, "cudaMallocAsync", [block = *out, nbytes] {
    std::lock_guard lock(kernel_mutex());
    check_range(block, nbytes, RangeAccess::Allocate);
  });
  return cudaSuccess;
}

cudaError_t free_async(void* pointer, cudaStream_t handle) {
  if (!is_valid_stream(handle)) return cudaErrorInvalidResourceHandle;
  count(&Counters::async_frees);
  if (pointer == nullptr) return cudaSuccess;
  Region region;
  if (device_of_address(pointer) < 0 || !find_region(pointer, &region) || !region.live ||
      region.begin != pointer) {
    return cudaErrorInvalidValue;
  }
  CUmemPoolHandle_st* pool = nullptr;
  {
    DeviceState& device = runtime().devices[region.device];
    std::lock_guard lock(device.mutex);
    Allocation& allocation = device.allocations[region.begin];
    allocation.released = true;
    pool = allocation.pool;
  }
  const size_t nbytes = region.nbytes;
  const Point point = enqueue(handle, "cudaFreeAsync", [pointer, nbytes] {
    {
      // Whoever used the memory must have finished: freeing it counts as a write.
      std::lock_guard lock(kernel_mutex());
      check_range(pointer, nbytes, RangeAccess::Free);
    }
    free_on_device(pointer);
  });
  if (pool == nullptr) return cudaSuccess;
  std::lock_guard lock(runtime().mutex);
  const uint64_t rounded = round_up(nbytes, kGranularity);
  pool->used -= rounded;
  pool->free.push_back({rounded, point.stream->number, static_cast<uint32_t>(point.sequence)});
  return cudaSuccess;
}

}  // namespace

void create_default_pools() {
  Runtime& state = runtime();
  for (int d = 0; d < state.device_count; ++d) {
    auto pool = std::make_unique<CUmemPoolHandle_st>();
    pool->device = d;
    state.devices[d].current_pool = pool.get();
    state.devices[d].pools.push_back(std::move(pool));
  }
}

uint64_t pool_bytes_reserved(int device) {
  uint64_t total = 0;
  for (const auto& pool : runtime().devices[device].pools) total += pool->reserved;
  return total;
}

void pools_after_synchronisation() {
  Runtime& state = runtime();
  for (int d = 0; d < state.device_count; ++d) {
    for (auto& pool : state.devices[d].pools) {
      release_unused(*pool, state.host_clock, pool->release_threshold);
    }
  }
}

void return_to_pool(CUmemPoolHandle_st* pool, uint64_t nbytes) {
  std::lock_guard lock(runtime().mutex);
  const uint64_t rounded = round_up(nbytes, kGranularity);
  pool->used -= rounded;
  pool->free.push_back({rounded, 0, 0});
}

namespace {

cudaError_t pool_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, void* value,
                           bool set) {
  auto* number = static_cast<uint64_t*>(value);
  std::lock_guard lock(runtime().mutex);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      (set ? pool.release_threshold : *number) = set ? *number : pool.release_threshold;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      if (set) return cudaErrorInvalidValue;
      *number = pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      if (set) return cudaErrorInvalidValue;
      *number = pool.used;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:  // the high-water marks can only be set back
      if (set) pool.reserved_high = pool.reserved;
      if (!set) *number = pool.reserved_high;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      if (set) pool.used_high = pool.used;
      if (!set) *number = pool.used_high;
      return cudaSuccess;
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      if (!set) *static_cast<int*>(value) = 1;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace lockstep::emulation

using namespace lockstep::emulation;

extern "C" {

cudaError_t cudaMallocAsync(void** out, size_t nbytes, cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  if (!is_valid_stream(stream)) return finish_call(cudaErrorInvalidResourceHandle);
  CUmemPoolHandle_st* pool = runtime().devices[resolve_stream(stream)->device].current_pool;
  return finish_call(allocate_async(out, nbytes, pool, stream));
}

cudaError_t cudaMallocFromPoolAsync(void** out, size_t nbytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(allocate_async(out, nbytes, pool, stream));
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  LOCKSTEP_EMULATION_ENTER();
  return finish_call(free_async(pointer, stream));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  LOCKSTEP_EMULATION_ENTER();
  if (device < 0 || device >= runtime().device_count) return finish_call(cudaErrorInvalidDevice);
  *pool = runtime().devices[device].pools.front().get();
  return finish_call(cudaSuccess);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  LOCKSTEP_EMULATION_ENTER();
  if (device < 0 || device >= runtime().device_count) return finish_call(cudaErrorInvalidDevice);
  *pool = runtime().devices[device].current_pool;
  return finish_call(cudaSuccess);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  LOCKSTEP_EMULATION_ENTER();
  if (device < 0 || device >= runtime().device_count) return finish_call(cudaErrorInvalidDevice);
  if (pool == nullptr || pool->device != device) return finish_call(cudaErrorInvalidValue);
  runtime().devices[device].current_pool = pool;
  return finish_call(cudaSuccess);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  LOCKSTEP_EMULATION_ENTER();
  const int device = properties->location.id;
  if (properties->location.type != cudaMemLocationTypeDevice || device < 0 ||
      device >= runtime().device_count) {
    return finish_call(cudaErrorInvalidValue);
  }
  auto created = std::make_unique<CUmemPoolHandle_st>();
  created->device = device;
  *pool = created.get();
  std::lock_guard lock(runtime().mutex);
  runtime().devices[device].pools.push_back(std::move(created));
  return finish_call(cudaSuccess);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  LOCKSTEP_EMULATION_ENTER();
  if (pool == nullptr) return finish_call(cudaErrorInvalidValue);
  DeviceState& device = runtime().devices[pool->device];
  if (pool == device.pools.front().get()) return finish_call(cudaErrorInvalidValue);
  std::lock_guard lock(runtime().mutex);
  if (device.current_pool == pool) device.current_pool = device.pools.front().get();
  // What is in use stays with the pool until it is freed, so the account itself is kept.
  pool->reserved = pool->used;
  pool->free.clear();
  return finish_call(cudaSuccess);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  LOCKSTEP_EMULATION_ENTER();
  if (pool == nullptr) return finish_call(cudaErrorInvalidValue);
  std::lock_guard lock(runtime().mutex);
  release_unused(*pool, runtime().host_clock, keep);
  return finish_call(cudaSuccess);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  LOCKSTEP_EMULATION_ENTER();
  if (pool == nullptr || value == nullptr) return finish_call(cudaErrorInvalidValue);
  return finish_call(pool_attribute(*pool, attribute, value, true));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  LOCKSTEP_EMULATION_ENTER();
  if (pool == nullptr || value == nullptr) return finish_call(cudaErrorInvalidValue);
  return finish_call(pool_attribute(*pool, attribute, value, false));
}

}  // extern "C"
