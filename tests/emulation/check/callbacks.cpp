// The functions that g++ -fsanitize=thread calls before every load and store, defined here in place
// of libtsan: the compiler's instrumentation without its run-time library.
#include <cstdint>

#include "tests/emulation/check/access.h"

using lockstep::emulation::check_access;

#define LOCKSTEP_CALLER __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

void __tsan_read_range(void* address, size_t nbytes) {
  check_access(address, nbytes, false, false, LOCKSTEP_CALLER);
}
void __tsan_write_range(void* address, size_t nbytes) {
  check_access(address, nbytes, true, false, LOCKSTEP_CALLER);
}

// volatile is how device code reads what another thread writes on purpose: like an atomic.
#define LOCKSTEP_ACCESSES(N)                                                                      \
  void __tsan_read##N(void* address) { check_access(address, N, false, false, LOCKSTEP_CALLER); } \
  void __tsan_write##N(void* address) { check_access(address, N, true, false, LOCKSTEP_CALLER); } \
  void __tsan_volatile_read##N(void* address) {                                                   \
    check_access(address, N, false, true, LOCKSTEP_CALLER);                                       \
  }                                                                                               \
  void __tsan_volatile_write##N(void* address) {                                                  \
    check_access(address, N, true, true, LOCKSTEP_CALLER);                                        \
  }                                                                                               \
  void __tsan_unaligned_read##N(void* address) {                                                  \
    check_access(address, N, false, false, LOCKSTEP_CALLER);                                      \
  }                                                                                               \
  void __tsan_unaligned_write##N(void* address) {                                                 \
    check_access(address, N, true, false, LOCKSTEP_CALLER);                                       \
  }                                                                                               \
  void __tsan_unaligned_volatile_read##N(void* address) {                                         \
    check_access(address, N, false, true, LOCKSTEP_CALLER);                                       \
  }                                                                                               \
  void __tsan_unaligned_volatile_write##N(void* address) {                                        \
    check_access(address, N, true, true, LOCKSTEP_CALLER);                                        \
  }
LOCKSTEP_ACCESSES(1)
LOCKSTEP_ACCESSES(2)
LOCKSTEP_ACCESSES(4)
LOCKSTEP_ACCESSES(8)
LOCKSTEP_ACCESSES(16)
#undef LOCKSTEP_ACCESSES

// std::atomic of host code: carried out, not looked at.
#define LOCKSTEP_FETCH(N, T, name)                                 \
  T __tsan_atomic##N##_fetch_##name(volatile T* p, T value, int) { \
    return __atomic_fetch_##name(p, value, __ATOMIC_SEQ_CST);      \
  }
#define LOCKSTEP_EXCHANGE(N, T, name)                                                             \
  int __tsan_atomic##N##_compare_exchange_##name(volatile T* p, T* expected, T value, int, int) { \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,               \
                                       __ATOMIC_SEQ_CST);                                         \
  }
#define LOCKSTEP_ATOMICS(N, T)                                 \
  T __tsan_atomic##N##_load(const volatile T* p, int) {        \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);               \
  }                                                            \
  void __tsan_atomic##N##_store(volatile T* p, T value, int) { \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);              \
  }                                                            \
  T __tsan_atomic##N##_exchange(volatile T* p, T value, int) { \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);    \
  }                                                            \
  LOCKSTEP_FETCH(N, T, add)                                    \
  LOCKSTEP_FETCH(N, T, sub)                                    \
  LOCKSTEP_FETCH(N, T, and)                                    \
  LOCKSTEP_FETCH(N, T, or)                                     \
  LOCKSTEP_FETCH(N, T, xor)                                    \
  LOCKSTEP_EXCHANGE(N, T, strong)                              \
  LOCKSTEP_EXCHANGE(N, T, weak)
LOCKSTEP_ATOMICS(8, uint8_t)
LOCKSTEP_ATOMICS(16, uint16_t)
LOCKSTEP_ATOMICS(32, uint32_t)
LOCKSTEP_ATOMICS(64, uint64_t)
#undef LOCKSTEP_ATOMICS
#undef LOCKSTEP_EXCHANGE
#undef LOCKSTEP_FETCH

}  // extern "C"
