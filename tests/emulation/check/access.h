// One load or store of instrumented code, of the host or of a CUDA thread.
#pragma once

#include <cstddef>

namespace lockstep::emulation {

void check_access(const void* address, size_t nbytes, bool write, bool atomic,
                  const void* return_address);

}  // namespace lockstep::emulation
