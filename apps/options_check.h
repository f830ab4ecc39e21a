// What option values must satisfy, alone and together, and what empty ones stand for.
#pragma once

#include "apps/options.h"

namespace lockstep::apps {

/// Fills in defaults that depend on other options (lr, weight decay); throws Error(Usage) for a
/// value out of range or a contradiction, naming the flags.
void check_train_options(TrainOptions& options);
void check_eval_options(EvalOptions& options);
void check_bench_options(BenchOptions& options);

}  // namespace lockstep::apps
