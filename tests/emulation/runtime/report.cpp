// Reports, and the handler that explains SIGSEGV: in the plain build that is how a host access to
// device memory shows.
#include "tests/emulation/runtime/report.h"

#include <execinfo.h>
#include <signal.h>

#include <cstdio>
#include <cstring>

#include "tests/emulation/executor/executor.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/state.h"
#include "tests/emulation/runtime/symbols.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {

thread_local const Operation* current_operation = nullptr;

namespace {

constexpr size_t kFaultStackBytes = 64 * 1024;
constexpr size_t kMaxReports = 1000;

void print_backtrace() {
  void* frames[32];
  const int count = backtrace(frames, 32);
  for (int i = 2; i < count && i < 14; ++i) {
    // A frame holds the address after the call.
    const void* call = static_cast<char*>(frames[i]) - 1;
    std::fprintf(stderr, "    %s\n", source_line(call).c_str());
  }
}

void explain_fault(int signal_number, siginfo_t* info, void*) {
  const void* address = info->si_addr;
  const int device = device_of_address(address);
  std::fprintf(stderr, "\nemulation: %s at %p\n",
               signal_number == SIGSEGV ? "invalid access" : "bus error", address);
  if (device >= 0 && in_device_code()) {
    std::fprintf(
        stderr, "  a kernel on device %d touched %s: past every allocation, or of a peer\n",
        current_operation != nullptr ? current_operation->device : -1, describe(address).c_str());
  } else if (device >= 0) {
    std::fprintf(stderr, "  HOST code dereferenced a DEVICE pointer: %s\n",
                 describe(address).c_str());
  } else if (in_device_code() && on_fiber_stack(address)) {
    std::fprintf(stderr, "  a CUDA thread overflowed its stack (LOCKSTEP_EMU_STACK_KB)\n");
  } else if (in_device_code()) {
    std::fprintf(stderr, "  in device code\n");
  }
  print_backtrace();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

std::string describe_shared(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  for (const SharedVariable& variable : shared_variables()) {
    if (byte >= variable.begin && byte < variable.begin + variable.nbytes) {
      return "byte " + std::to_string(byte - variable.begin) + " of __shared__ " +
             demangle(variable.mangled_name);
    }
  }
  const DynamicShared arena = dynamic_shared_arena();
  if (byte < arena.begin || byte >= arena.begin + arena.nbytes) return "";
  return "byte " + std::to_string(byte - current_block.dynamic_shared) + " of " +
         std::to_string(current_block.dynamic_bytes) + " bytes of dynamic shared memory";
}

}  // namespace

std::string describe(const void* address) {
  if (in_device_code()) {
    const std::string shared = describe_shared(address);
    if (!shared.empty()) return shared;
  }
  char text[256];
  Region region;
  if (!find_region(address, &region)) {
    std::snprintf(text, sizeof text, "%p (%s)", address,
                  device_of_address(address) >= 0 ? "device address, before every allocation"
                                                  : "pageable host memory");
    return text;
  }
  const long offset = static_cast<long>(static_cast<const char*>(address) - region.begin);
  const void* begin = region.begin;
  if (region.kind == Region::Pinned) {
    std::snprintf(text, sizeof text, "byte %ld of %zu pinned host bytes at %p", offset,
                  region.nbytes, begin);
  } else if (static_cast<size_t>(offset) < region.nbytes) {
    std::snprintf(text, sizeof text, "byte %ld of the %s%zu-byte allocation %p of device %d",
                  offset, region.live ? "" : "FREED ", region.nbytes, begin, region.device);
  } else {
    std::snprintf(text, sizeof text,
                  "%ld bytes past the end of the %zu-byte allocation %p of device %d",
                  offset - static_cast<long>(region.nbytes), region.nbytes, begin, region.device);
  }
  return text;
}

void report(const char* kind, const std::string& message, cudaError_t sticky) {
  std::string text = std::string("emulation ") + kind + ": " + message;
  if (current_operation != nullptr) {
    const Operation& operation = *current_operation;
    text += "\n    in ";
    text += operation.kernel != nullptr ? "kernel " + function_name(operation.kernel)
                                        : std::string(operation.name);
    text += " on device " + std::to_string(operation.device);
  }
  Runtime& state = runtime();
  bool stop;
  {
    std::lock_guard lock(state.mutex);
    stop = state.on_error == OnError::Abort;
    if (!stop && state.reports.size() < kMaxReports) state.reports.push_back(text);
  }
  if (stop) {
    std::fprintf(stderr, "%s\n", text.c_str());
    print_backtrace();
    std::fflush(stderr);
    std::abort();
  }
  if (sticky != cudaSuccess) state.sticky = sticky;
}

void install_fault_handler() {
  struct sigaction action {};
  action.sa_sigaction = explain_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  // The first backtrace loads libgcc, which must not happen in the handler.
  void* frames[2];
  backtrace(frames, 2);
}

void prepare_fault_stack() {
  if (kAsan) return;  // AddressSanitizer brings its own and dislikes another
  static thread_local std::unique_ptr<char[]> stack;
  if (stack != nullptr) return;
  stack.reset(new char[kFaultStackBytes]);
  stack_t description{};
  description.ss_sp = stack.get();
  description.ss_size = kFaultStackBytes;
  sigaltstack(&description, nullptr);
}

}  // namespace lockstep::emulation
