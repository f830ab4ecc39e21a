// Whether two accesses are ordered, and what to say when they are not.
#pragma once

#include <cstdint>

#include "tests/emulation/check/shadow.h"
#include "tests/emulation/runtime/report.h"
#include "tests/emulation/runtime/state.h"

namespace lockstep::emulation {

/// An access that happens now.
struct Current {
  Access access;
  const Operation* operation;  ///< null: the host
  Clock host_clock;            ///< of the host only
};

/// Looks at the bytes of one cell: reports what is not ordered, then remembers the access.
/// program_counter is 0 for operations that are no kernel.
void touch(Cell& cell, uint8_t bytes, bool write, const Current& now, uintptr_t address,
           uintptr_t program_counter);

/// Operations that the checks have seen, so that an Access can be traced back to its stream.
void remember_operation(const Operation& operation);

/// True for the first report of this kind from this place.
bool is_first_report(uintptr_t place, int kind);

}  // namespace lockstep::emulation
