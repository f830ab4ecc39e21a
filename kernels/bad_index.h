// Where a kernel records that a target or an index was out of range. A kernel cannot throw, and one
// that traps leaves a device that refuses every later call: so it leaves a note, goes on with
// something harmless, and the host raises the error when it next waits for the device anyway.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

struct BadIndex {
  int64_t position = -1;  ///< of the first one in its array; -1: none since this was last reset
  int64_t value = 0;      ///< what stands there
};

}  // namespace lockstep::kernels
