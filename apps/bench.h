// `lockstep bench`: each figure beside what limits it, measured in the same run. One file a
// subject.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "apps/run_ranks.h"

namespace lockstep::apps {

/// One line of the table: "all-reduce of 40 KB   1.9 us   bare loop 1.3 us   1.5 times".
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string limit_name;  ///< empty: there is nothing to compare with
  double limit = 0;        ///< in the same unit
};

void print_figure(const Figure& figure);

double median(std::vector<double> values);

/// Seconds of one call of each: the median over blocks of calls that take about `seconds` together.
/// Blocks of all calls take turns, so that whatever else the machine does meets all of them alike.
std::vector<double> seconds_per_call(double seconds,
                                     const std::vector<std::function<void()>>& calls);

/// The same for what all ranks must call equally often: how often is agreed on first, and the ranks
/// start each block together. Each rank gets its own medians.
std::vector<double> collective_seconds_per_call(dist::ProcessGroup& group, double seconds,
                                                const std::vector<std::function<void()>>& calls);

/// All-reduce of 4 B, 40 KB and 25 MB against a bare loop over shared memory, and against memcpy.
int bench_allreduce(const BenchOptions& options);
/// The documented step and an MLP on images, in parts, against their bare matrix products.
int bench_step(const BenchOptions& options);
/// Random numbers against the bare generator, batches from memory against memcpy.
int bench_data(const BenchOptions& options);
/// Large linear layers, forward and backward, against the same products by the BLAS alone.
int bench_linear(const BenchOptions& options);
/// The documented run as a whole process, beside the start of an empty one, and its memory.
int bench_startup(const BenchOptions& options);

}  // namespace lockstep::apps
