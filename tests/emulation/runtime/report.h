// Diagnoses: one function through which every bug is told, and the words for addresses in it.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::emulation {

/// For each stream, by number: the last operation that is known to have finished.
using Clock = std::vector<uint32_t>;

/// The operation that the calling thread carries out, for reports and checks.
struct Operation {
  uint32_t id = 0;                     ///< counted over the process, from 1
  uint32_t stream = 0;                 ///< number of its stream
  uint32_t sequence = 0;               ///< counted in its stream, from 1
  uint64_t enqueued_at = 0;            ///< on the host's clock
  std::shared_ptr<const Clock> after;  ///< what has finished when it starts
  const char* name = "";
  const void* kernel = nullptr;
  int device = 0;
  bool is_host_function = false;
};
/// Null on threads of the program.
extern thread_local const Operation* current_operation;

/// Tells of a bug: prints and aborts, or keeps the text and makes every later call return `sticky`
/// (unless that is cudaSuccess).
void report(const char* kind, const std::string& message, cudaError_t sticky);

/// "byte 12 of the 256-byte allocation 0x... of device 0" and the like.
std::string describe(const void* address);

/// Explains faults of the hardware before the process dies of them.
void install_fault_handler();
/// Gives the calling thread a stack on which the handler can run.
void prepare_fault_stack();

}  // namespace lockstep::emulation
