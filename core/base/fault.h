// Named places where a test makes this process fail, so that what the others then do can be seen
// at every place, and not only where a kill happens to strike. Off, a place costs one load.
#pragma once

namespace lockstep {

/// The ranks that are none: the launcher, and code that does not know which rank runs it.
inline constexpr int kFaultLauncher = -1;
inline constexpr int kFaultAnyRank = -2;

namespace fault {

/// LOCKSTEP_FAULT is set.
extern const bool kArmed;

/// Acts if the variable names this place and rank, as docs/env_vars.md describes.
/// throws Error(Usage) when the variable is not understood; what the action "throw" throws
void reach(const char* point, int rank);

}  // namespace fault

/// `point` is unique in the program and listed in docs/env_vars.md.
inline void fault_point(const char* point, int rank = kFaultAnyRank) {
  if (fault::kArmed) [[unlikely]] {
    fault::reach(point, rank);
  }
}

}  // namespace lockstep
