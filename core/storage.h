// Reference-counted bytes on a device. Tensors are views of a storage; a DDP bucket is one storage
// whose slices are the gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/device.h"

namespace lockstep {

class Storage {
 public:
  Storage() = default;

  /// Fresh memory of nbytes on the device, contents undefined, 64-byte aligned (CPU).
  static Storage allocate(int64_t nbytes, Device device);

  /// Memory that somebody else made: `owner` keeps it alive as long as any tensor uses it.
  static Storage borrow(void* data, int64_t nbytes, Device device, std::shared_ptr<void> owner);

  bool defined() const { return impl_ != nullptr; }
  void* data() const { return impl_->data; }
  int64_t nbytes() const { return impl_->nbytes; }
  Device device() const { return impl_->device; }

  /// Counts in-place writes; autograd compares it to find a saved tensor that was modified.
  uint64_t version() const { return impl_->version; }
  void bump_version() const { ++impl_->version; }

  /// True if both are the same memory.
  friend bool operator==(const Storage&, const Storage&) = default;

 private:
  struct Impl {
    void* data = nullptr;
    int64_t nbytes = 0;
    Device device;
    uint64_t version = 0;
    std::shared_ptr<void> owner;  ///< empty: the memory is ours and goes back to the allocator
    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();
  };

  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
