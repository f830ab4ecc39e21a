// Turns --nproc, --rank and the environment into running ranks: forks of this process, or this
// process itself as one hand-started rank.
#pragma once

#include <functional>
#include <memory>

#include "apps/options.h"
#include "dist/process_group.h"

namespace lockstep::apps {

/// True when another launcher (or a person) started this process as one rank: --rank, or RANK and
/// WORLD_SIZE in the environment and no --nproc.
bool is_one_of_many(const RankOptions& options);

/// Throws Error(Usage) when a flag and a variable that another launcher set say different things.
void check_environment(const RankOptions& options);

/// How many ranks --nproc, or its default, starts here.
int num_local_ranks(const RankOptions& options);

using RankBody = std::function<void(const std::shared_ptr<dist::ProcessGroup>&)>;

/// Runs `body` in every rank, each with its process group, its share of the cores and its log going
/// to standard error; returns the exit code. A rank whose body throws tells the others why.
int run_ranks(const RankOptions& options, const RankBody& body);

/// Prints "lockstep: MESSAGE" on standard error.
void print_error(const std::string& message);

/// Messages of the library (warnings) go to this thread's standard error.
void log_to_stderr();

}  // namespace lockstep::apps
