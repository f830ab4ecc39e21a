// memfd, mmap and hole punching behind the interface of shared_memory.h.
#include "dist/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace lockstep::dist {

int64_t round_to_pages(int64_t nbytes) {
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  return (nbytes + page - 1) / page * page;
}

std::shared_ptr<SharedMemory> SharedMemory::create(int64_t nbytes) {
  // The name is only for /proc/PID/maps; no path leads to the memory.
  UniqueFd file(::memfd_create("lockstep", MFD_CLOEXEC));
  LOCKSTEP_CHECK_KIND(Io, file.valid(), "shared memory: memfd_create failed: ", strerror(errno));
  auto memory = std::make_shared<SharedMemory>(std::move(file));
  memory->grow(nbytes);
  return memory;
}

void SharedMemory::grow(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  const off_t current = ::lseek(file(), 0, SEEK_END);
  if (current >= nbytes) return;
  LOCKSTEP_CHECK_KIND(Io, ::ftruncate(file(), nbytes) == 0, "shared memory: cannot grow to ",
                      nbytes, " bytes: ", strerror(errno));
}

std::shared_ptr<std::byte> SharedMemory::map(int64_t offset, int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<std::byte>& cached = mappings_[offset];
  if (auto mapping = cached.lock()) return mapping;
  void* address = ::mmap(nullptr, static_cast<size_t>(nbytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                         file(), offset);
  LOCKSTEP_CHECK_KIND(Io, address != MAP_FAILED, "shared memory: cannot map ", nbytes,
                      " bytes: ", strerror(errno));
  std::shared_ptr<std::byte> mapping(static_cast<std::byte*>(address), [nbytes](std::byte* begin) {
    ::munmap(begin, static_cast<size_t>(nbytes));
  });
  std::erase_if(mappings_,
                [&](const auto& entry) { return entry.first != offset && entry.second.expired(); });
  cached = mapping;
  return mapping;
}

void SharedMemory::discard(int64_t offset, int64_t nbytes) noexcept {
  ::fallocate(file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, nbytes);
}

}  // namespace lockstep::dist
