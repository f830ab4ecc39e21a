// One collective allocation: a buffer for every rank, side by side in the group's memory, so that
// any rank can reduce all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dist/shared_memory.h"

namespace lockstep::dist {

/// Tensors keep it alive. When the last rank lets go, its pages return to the system.
class SharedRegion {
 public:
  /// File bytes that a region of world_size buffers of nbytes takes.
  static int64_t file_bytes(int64_t nbytes, int world_size);

  /// Maps the region that begins `offset` bytes into the memory, which must be long enough.
  SharedRegion(std::shared_ptr<SharedMemory> memory, int64_t offset, int64_t nbytes, int rank,
               int world_size);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  std::byte* buffer(int rank) const;

  /// Where [data, data + nbytes) is, if it is in this rank's buffer: a number that is equal on all
  /// ranks for corresponding bytes, and never 0. Else 0.
  int64_t location_of(const void* data, int64_t nbytes) const;

 private:
  std::shared_ptr<SharedMemory> memory_;
  std::shared_ptr<std::byte> mapping_;
  int64_t offset_;
  int64_t nbytes_;
  int rank_;
  int world_size_;
};

}  // namespace lockstep::dist
