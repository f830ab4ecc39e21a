// The memory of the devices. Each has a range of addresses at a fixed place, none of which is used
// twice, so a stale pointer never looks valid; fresh memory is NaN, and a canary follows each
// block.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lockstep::emulation {

inline constexpr uint64_t kArenaBase = 0x200000000000;
inline constexpr uint64_t kArenaBytes = uint64_t{1} << 37;  // of one device

/// The device whose range holds the address, or -1.
int device_of_address(const void* address);

/// The allocation that contains an address or is nearest below it in a device's range.
struct Region {
  enum Kind { Device, Pinned };
  const char* begin;
  size_t nbytes;
  int device;
  Kind kind;
  bool live;  ///< not freed, nor given to cudaFreeAsync
};
bool find_region(const void* address, Region* region);

/// What a range of bytes is. Valid: it lies in one live allocation, or wholly in pageable memory.
struct Span {
  bool valid;
  bool on_device;
  bool pinned;
  int device;
};
Span look_up(const void* address, size_t nbytes);

bool peer_access_enabled(int from, int to);

/// pool is null for cudaMalloc. The caller has checked that the device has room.
cudaError_t allocate_on_device(int device, size_t nbytes, CUmemPoolHandle_st* pool, void** out);
/// The memory is gone: overruns show now, and whoever uses it later is reported.
cudaError_t free_on_device(void* pointer);
/// True for the one allocation of this run that fail_allocation_after chose.
bool allocation_must_fail();

void map_devices();

/// Makes a device's memory accessible to this process while an operation runs. It stays so until
/// the next synchronisation: opening and closing it for each operation costs 0.8 ms with 20 MB.
class DeviceAccess {
 public:
  explicit DeviceAccess(int device);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  int device_;
};
/// The host has waited: until the next operation, touching device memory is a fault.
void close_devices();

}  // namespace lockstep::emulation
