// The sentences of the shm engine's errors: what a rank calls, what another rank was last seen
// doing.
#pragma once

#include <string>
#include <vector>

#include "dist/shm_layout.h"

namespace lockstep::dist {

/// "all_reduce #12 (Sum of Float32 [10000])".
std::string describe(const CallFingerprint& fingerprint);

/// "step 120, backward, bucket 2".
std::string describe_phase(const SharedPhase& phase);

/// "rank 2 (pid 77, last phase: step 120, backward, bucket 2)".
std::string describe_rank(const SharedGroup& group, int rank);

/// The same for several ranks, comma-separated.
std::string describe_ranks(const SharedGroup& group, const std::vector<int>& ranks);

/// Publishes this rank's phase.
void store_phase(SharedPhase& shared, const Phase& phase);

/// "[rank 2/4 hostname] ".
std::string rank_prefix(int rank, int world_size);

}  // namespace lockstep::dist
