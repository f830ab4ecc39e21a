// The few calls of AddressSanitizer that the emulator makes, as functions that do nothing in the
// other builds. The check build compiles the emulator itself without instrumentation.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace lockstep::emulation {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAsan = true;
inline void asan_poison(const void* address, size_t nbytes) {
  __asan_poison_memory_region(address, nbytes);
}
inline void asan_unpoison(const void* address, size_t nbytes) {
  __asan_unpoison_memory_region(address, nbytes);
}
inline void asan_start_switch(void** fake_stack, const void* stack, size_t nbytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, nbytes);
}
inline void asan_finish_switch(void* fake_stack) {
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
#else
inline constexpr bool kAsan = false;
inline void asan_poison(const void*, size_t) {}
inline void asan_unpoison(const void*, size_t) {}
inline void asan_start_switch(void**, const void*, size_t) {}
inline void asan_finish_switch(void*) {}
#endif

}  // namespace lockstep::emulation
