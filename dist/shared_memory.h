// Memory that ranks share, without a name: a memfd lives exactly as long as a process holds it, so
// that no crash leaves anything behind. Ranks that are threads of one process share its mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "dist/unique_fd.h"

namespace lockstep::dist {

/// Thread-safe. Mappings outlive the object.
class SharedMemory {
 public:
  /// A new memory of nbytes zero bytes. Throws Error(Io) when the system refuses.
  static std::shared_ptr<SharedMemory> create(int64_t nbytes);

  /// The memory behind a descriptor that another process handed over.
  explicit SharedMemory(UniqueFd file) : file_(std::move(file)) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int file() const { return file_.get(); }

  /// Makes it at least nbytes long; the new bytes are zero. Throws Error(Io).
  void grow(int64_t nbytes);

  /// Bytes [offset, offset + nbytes) for reading and writing; offset is a multiple of the page
  /// size. The ranks of one process get one mapping, which lives as long as the last pointer to it.
  /// Throws Error(Io).
  std::shared_ptr<std::byte> map(int64_t offset, int64_t nbytes);

  /// Gives the pages of a range back to the system; nobody may use the range after.
  void discard(int64_t offset, int64_t nbytes) noexcept;

 private:
  UniqueFd file_;
  std::mutex mutex_;
  std::map<int64_t, std::weak_ptr<std::byte>> mappings_;  ///< by offset
};

/// nbytes rounded up to whole pages.
int64_t round_to_pages(int64_t nbytes);

}  // namespace lockstep::dist
