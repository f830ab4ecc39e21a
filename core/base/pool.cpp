// Thread-local free lists by 32-byte classes. Under a sanitizer every call goes to operator new, so
// that a use after free is found.
#include "core/base/pool.h"

#include <array>
#include <new>

#include "core/base/sanitizer.h"

namespace lockstep::pool {
namespace {

constexpr bool kPooling = !kSanitized;

constexpr size_t kClassBytes = 32;
constexpr size_t kNumClasses = kMaxPooledBytes / kClassBytes;

struct FreeBlock {
  FreeBlock* next;
};

/// Objects with static storage may be freed after this thread's lists are gone; `alive` tells.
struct FreeLists {
  std::array<FreeBlock*, kNumClasses> heads{};
  bool alive = true;

  ~FreeLists() {
    alive = false;
    for (FreeBlock*& head : heads) {
      while (head != nullptr) {
        FreeBlock* next = head->next;
        ::operator delete(head);
        head = next;
      }
    }
  }
};

thread_local FreeLists t_lists;

constexpr size_t size_class(size_t nbytes) { return (nbytes + kClassBytes - 1) / kClassBytes - 1; }

}  // namespace

void* allocate(size_t nbytes) {
  if (nbytes == 0) nbytes = 1;
  if (!kPooling || nbytes > kMaxPooledBytes) return ::operator new(nbytes);
  const size_t index = size_class(nbytes);
  FreeBlock*& head = t_lists.heads[index];
  if (head != nullptr) {
    FreeBlock* block = head;
    head = block->next;
    return block;
  }
  return ::operator new((index + 1) * kClassBytes);
}

void deallocate(void* block, size_t nbytes) noexcept {
  if (nbytes == 0) nbytes = 1;
  if (!kPooling || nbytes > kMaxPooledBytes || !t_lists.alive) {
    ::operator delete(block);
    return;
  }
  FreeBlock*& head = t_lists.heads[size_class(nbytes)];
  head = new (block) FreeBlock{head};
}

}  // namespace lockstep::pool
