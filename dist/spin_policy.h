// How long a waiting rank may look at memory before it sleeps: looking is 100 times faster than
// being woken, but takes the core from whoever it waits for when there are too few.
#pragma once

#include <chrono>

#include "dist/shm_layout.h"

namespace lockstep::dist {

struct SpinPolicy {
  std::chrono::nanoseconds waiting{0};     ///< for a rank that has nothing else to do
  std::chrono::nanoseconds background{0};  ///< for a communication thread beside a busy rank
};

/// Publishes on which CPUs this rank may run.
void store_cpus(RankSlot& slot);

/// From the CPUs of all ranks together and the CPU quota: a waiting rank looks when every rank has
/// a core, a communication thread when every rank has two. All ranks must have joined.
SpinPolicy spin_policy(const SharedGroup& group);

}  // namespace lockstep::dist
