// Stacks that switch among themselves in 25 ns: a CUDA thread that waits in a barrier keeps its
// stack while others run. glibc's swapcontext makes two system calls and takes ten times as long;
// C++20 coroutines have no stack, so kernels would have to be written for them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "emulation/device.h"

namespace lockstep::emulation {

struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;  ///< the lowest usable byte; the page below it is a guard
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;  ///< AddressSanitizer's, while the fiber is away
  CudaThread* thread = nullptr;
  unsigned number = 0;
};

/// Leaves `from` and goes on in `to`. A fiber that is left for good (from_ends) gives its
/// sanitizer bookkeeping back.
void switch_fiber(Fiber& from, Fiber& to, bool from_ends = false);
/// The first thing that the entry function of a fiber does.
void fiber_entered();
/// Describes the calling thread's own stack, so that fibers can switch back to it.
void describe_thread_stack(Fiber& thread);

/// Makes fibers on demand and keeps those that are not in use.
class FiberPool {
 public:
  explicit FiberPool(void (*entry)()) : entry_(entry) {}

  Fiber* take();
  void give_back(Fiber* fiber) { idle_.push_back(fiber); }
  /// Every fiber starts afresh, wherever it is stuck.
  void restart();

 private:
  void prepare(Fiber& fiber);

  void (*entry_)();
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

}  // namespace lockstep::emulation
