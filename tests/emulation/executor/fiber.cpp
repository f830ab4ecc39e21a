// Fibers: stacks with guard pages and a switch of ten instructions.
#include "tests/emulation/executor/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/sanitizer.h"

extern "C" void lockstep_emulation_switch(void** save, void* load);

// Saves what the System V ABI asks a function to keep and changes the stack. The floating-point
// control words are the same in every fiber.
#if defined(__x86_64__)
asm(R"(
.text
.globl lockstep_emulation_switch
.type lockstep_emulation_switch,@function
lockstep_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_emulation_switch,.-lockstep_emulation_switch
)");
#else
#error "the emulation switches stacks on x86-64 only"
#endif

namespace lockstep::emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr int kSavedRegisters = 6;

size_t fiber_stack_bytes() {
  static const size_t nbytes =
      static_cast<size_t>(setting("LOCKSTEP_EMU_STACK_KB", kAsan ? 256 : 64)) * 1024;
  return nbytes;
}

}  // namespace

void switch_fiber(Fiber& from, Fiber& to, bool from_ends) {
  asan_start_switch(from_ends ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
  lockstep_emulation_switch(&from.stack_pointer, to.stack_pointer);
  asan_finish_switch(from.fake_stack);
}

void fiber_entered() { asan_finish_switch(nullptr); }

void describe_thread_stack(Fiber& thread) {
  static thread_local void* stack = nullptr;
  static thread_local size_t nbytes = 0;
  if (stack == nullptr) {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &nbytes);
    pthread_attr_destroy(&attributes);
  }
  thread.stack = static_cast<char*>(stack);
  thread.stack_bytes = nbytes;
}

void FiberPool::prepare(Fiber& fiber) {
  // Stacks a power of two apart would all use the same few sets of the cache: stagger their tops.
  char* top = fiber.stack + fiber.stack_bytes - 64 - (fiber.number % 61) * 192;
  auto** pointer = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
  *--pointer = nullptr;  // a return address that is never used; it aligns the frame as the ABI asks
  *--pointer = reinterpret_cast<void*>(entry_);
  for (int i = 0; i < kSavedRegisters; ++i) *--pointer = nullptr;
  fiber.stack_pointer = pointer;
  fiber.fake_stack = nullptr;
  fiber.thread = nullptr;
}

Fiber* FiberPool::take() {
  if (idle_.empty()) {
    auto fiber = std::make_unique<Fiber>();
    fiber->number = static_cast<unsigned>(fibers_.size());
    fiber->stack_bytes = fiber_stack_bytes();
    void* mapping = mmap(nullptr, fiber->stack_bytes + kPage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) fatal("cannot map the stack of a CUDA thread");
    mprotect(mapping, kPage, PROT_NONE);
    fiber->stack = static_cast<char*>(mapping) + kPage;
    prepare(*fiber);
    idle_.push_back(fiber.get());
    fibers_.push_back(std::move(fiber));
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void FiberPool::restart() {
  idle_.clear();
  for (auto& fiber : fibers_) {
    prepare(*fiber);
    idle_.push_back(fiber.get());
  }
}

}  // namespace lockstep::emulation
