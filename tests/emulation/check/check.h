// What the check build knows of every 4 bytes of device, shared and pinned memory: whether they are
// allocated, whether they were written, and by whom they were last touched. The other builds link
// check/disabled.cpp, where these functions do nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/emulation/runtime/symbols.h"

namespace lockstep::emulation {

bool check_is_linked();

/// Memory of a device or pinned memory begins to exist, or ends.
void check_alloc(const void* begin, size_t nbytes);
void check_free(const void* begin, size_t nbytes);

/// A whole range is touched by the current operation, which is not a kernel. The caller holds the
/// kernel mutex.
enum class RangeAccess {
  Read,             ///< uninitialised bytes are none of its business
  ReadInitialised,  ///< uninitialised bytes are reported
  Write,
  Allocate,  ///< claims the memory for this point of the stream; it stays uninitialised
  Free,      ///< like a write: nobody may be at it
};
void check_range(const void* begin, size_t nbytes, RangeAccess access);
/// After a copy, bytes are as initialised as their sources.
void check_copy_initialised(const void* destination, const void* source, size_t nbytes);

void check_kernel_start(const std::vector<SharedVariable>& variables);
void check_kernel_end();
void check_block_start();
void check_atomic(const void* address, unsigned nbytes, const void* program_counter);

/// Places that were reported once are reported again.
void check_forget_reports();

}  // namespace lockstep::emulation
