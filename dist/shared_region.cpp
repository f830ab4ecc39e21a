// Layout: one cache line with the count of ranks that have let go, then the buffers.
#include "dist/shared_region.h"

#include <atomic>
#include <utility>

namespace lockstep::dist {
namespace {

constexpr int64_t kHeaderBytes = 64;

int64_t stride_of(int64_t nbytes) { return (nbytes + 63) / 64 * 64; }

}  // namespace

int64_t SharedRegion::file_bytes(int64_t nbytes, int world_size) {
  return round_to_pages(kHeaderBytes + world_size * stride_of(nbytes));
}

SharedRegion::SharedRegion(std::shared_ptr<SharedMemory> memory, int64_t offset, int64_t nbytes,
                           int rank, int world_size)
    : memory_(std::move(memory)),
      mapping_(memory_->map(offset, file_bytes(nbytes, world_size))),
      offset_(offset),
      nbytes_(nbytes),
      rank_(rank),
      world_size_(world_size) {}

SharedRegion::~SharedRegion() {
  auto& released = *reinterpret_cast<std::atomic<int32_t>*>(mapping_.get());
  if (released.fetch_add(1) + 1 == world_size_) {
    memory_->discard(offset_, file_bytes(nbytes_, world_size_));
  }
}

std::byte* SharedRegion::buffer(int rank) const {
  return mapping_.get() + kHeaderBytes + rank * stride_of(nbytes_);
}

int64_t SharedRegion::location_of(const void* data, int64_t nbytes) const {
  const std::byte* begin = buffer(rank_);
  const std::byte* first = static_cast<const std::byte*>(data);
  if (first < begin || first + nbytes > begin + nbytes_) return 0;
  return offset_ + kHeaderBytes + (first - begin);
}

}  // namespace lockstep::dist
