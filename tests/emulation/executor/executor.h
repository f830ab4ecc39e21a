// Runs kernels: one block at a time in the process, each CUDA thread on a fiber. Threads that never
// wait share one fiber, so a kernel without barriers costs a few nanoseconds a thread.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "emulation/device.h"

namespace lockstep::emulation {

struct KernelLaunch {
  dim3 grid;
  dim3 block;
  unsigned dynamic_bytes;
  std::function<void()> body;  ///< runs one CUDA thread
};
void run_kernel(const KernelLaunch& launch);

/// Leaves the kernel for good, after a report of something that would end it on a GPU too.
[[noreturn]] void abandon_kernel();

/// This thread of the host is inside a CUDA thread.
bool in_device_code();
bool on_fiber_stack(const void* address);

/// Held while a kernel runs; whoever looks at or changes what the checks know takes it too.
std::recursive_mutex& kernel_mutex();

/// All of the memory from which blocks get dynamic shared memory, with red zones around.
struct DynamicShared {
  char* begin;
  size_t nbytes;
};
DynamicShared dynamic_shared_arena();

/// How far the running thread is between barriers: two accesses with the same numbers are not
/// ordered, unless they are of one thread.
struct Epoch {
  uint32_t block;
  uint16_t thread;
  uint16_t barrier;
  uint16_t warp;
};
Epoch current_epoch();

/// While one lives, loads and stores of the running CUDA thread are the emulator's own and are not
/// checked: code of std:: that both sides use exists once, and instrumented.
class Unchecked {
 public:
  Unchecked() : thread_(current_thread), before_(thread_ != nullptr && thread_->checked) {
    if (thread_ != nullptr) thread_->checked = false;
  }
  ~Unchecked() {
    if (thread_ != nullptr) thread_->checked = before_;
  }
  Unchecked(const Unchecked&) = delete;
  Unchecked& operator=(const Unchecked&) = delete;

 private:
  CudaThread* thread_;
  bool before_;
};

}  // namespace lockstep::emulation
