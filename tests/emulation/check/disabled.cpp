// The builds without checks.
#include "tests/emulation/check/check.h"

namespace lockstep::emulation {

bool check_is_linked() { return false; }
void check_alloc(const void*, size_t) {}
void check_free(const void*, size_t) {}
void check_range(const void*, size_t, RangeAccess) {}
void check_copy_initialised(const void*, const void*, size_t) {}
void check_kernel_start(const std::vector<SharedVariable>&) {}
void check_kernel_end() {}
void check_block_start() {}
void check_atomic(const void*, unsigned, const void*) {}
void check_forget_reports() {}

}  // namespace lockstep::emulation
