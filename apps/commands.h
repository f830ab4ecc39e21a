// The subcommands. Each returns the exit code or throws lockstep::Error.
#pragma once

#include "apps/options.h"

namespace lockstep::apps {

/// Trains on every rank; data, model and files are checked before any rank starts.
int run_train(const TrainOptions& options);

/// Evaluates saved weights, every sample once over all ranks.
int run_eval(const EvalOptions& options);

/// Measures this machine and prints each figure beside what limits it.
int run_bench(const BenchOptions& options);

/// Prints what the binary is made of and what it found on this machine.
int run_info();

}  // namespace lockstep::apps
