// Hand-started ranks each have their own command line: a difference must be an error, not a hang.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dist/process_group.h"

namespace lockstep::apps {

/// Name and value of one fact about the run.
using RunFact = std::pair<std::string, std::string>;

/// Compares every rank's facts with rank 0's. A collective call; throws Error(Usage) on every rank
/// when there is a difference, naming it on the ranks that differ.
void check_same_options(dist::ProcessGroup& group, const std::vector<RunFact>& facts);

}  // namespace lockstep::apps
