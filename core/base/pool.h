// A free list per thread and size class for the small objects of a step (tensor handles, graph
// nodes), so that a steady training step allocates nothing: what one step frees, the next one
// takes.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace lockstep::pool {

/// Blocks up to this size are kept on a free list; larger ones go straight to operator new.
inline constexpr size_t kMaxPooledBytes = 1024;

/// Memory for one object, aligned as operator new aligns; from this thread's free list when it has
/// one.
void* allocate(size_t nbytes);

/// Gives a block of allocate(nbytes) to the *calling* thread's free list, whoever allocated it.
void deallocate(void* block, size_t nbytes) noexcept;

/// For std::allocate_shared: object and reference count in one pooled block.
template <typename T>
struct Allocator {
  using value_type = T;

  Allocator() = default;
  template <typename U>
  Allocator(const Allocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(size_t n) { return static_cast<T*>(pool::allocate(n * sizeof(T))); }
  void deallocate(T* block, size_t n) noexcept { pool::deallocate(block, n * sizeof(T)); }

  template <typename U>
  friend bool operator==(const Allocator&, const Allocator<U>&) {
    return true;
  }
};

/// std::make_shared from the pool.
template <typename T, typename... Args>
std::shared_ptr<T> make_shared(Args&&... args) {
  return std::allocate_shared<T>(Allocator<T>{}, std::forward<Args>(args)...);
}

}  // namespace lockstep::pool
