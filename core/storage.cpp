// Storage allocation by device.
#include "core/storage.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/pool.h"
#include "kernels/allocator.h"

namespace lockstep {

Storage::Impl::~Impl() {
  if (owner == nullptr && data != nullptr) kernels::cpu_deallocate(data, nbytes);
}

Storage Storage::allocate(int64_t nbytes, Device device) {
  LOCKSTEP_CHECK(device.is_cpu(),
                 "allocate: this build has no CUDA support, so there is no device ", device,
                 "; use --device cpu or build with the CUDA toolkit");
  Storage storage;
  storage.impl_ = pool::make_shared<Impl>();
  storage.impl_->data = kernels::cpu_allocate(nbytes);
  storage.impl_->nbytes = nbytes;
  storage.impl_->device = device;
  return storage;
}

Storage Storage::borrow(void* data, int64_t nbytes, Device device, std::shared_ptr<void> owner) {
  LOCKSTEP_CHECK(owner != nullptr, "borrow: memory needs an owner that outlives the tensors");
  Storage storage;
  storage.impl_ = pool::make_shared<Impl>();
  storage.impl_->data = data;
  storage.impl_->nbytes = nbytes;
  storage.impl_->device = device;
  storage.impl_->owner = std::move(owner);
  return storage;
}

}  // namespace lockstep
