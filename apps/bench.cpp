// Which benchmarks run, how a call is timed, and how a figure is printed.
#include "apps/bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/number_format.h"
#include "apps/stopwatch.h"
#include "core/base/error.h"

namespace lockstep::apps {
namespace {

/// A call is timed in this many blocks; the median leaves out those that the system disturbed.
constexpr int kBlocks = 11;

/// How the ranks that measure together stay together; one rank alone needs neither.
struct Agreement {
  std::function<double(double)> slowest;  ///< the largest of all ranks' values
  std::function<void()> start;            ///< returns on all ranks at once
};

/// Calls a block, so that all blocks take `seconds` together; from a few calls' time.
int64_t calls_per_block(double seconds, const std::function<void()>& call,
                        const Agreement& agreement) {
  // Every rank must call equally often, so a fixed number of calls says how many are to come.
  constexpr int kFirstCalls = 5;
  for (int i = 0; i < kFirstCalls; ++i) call();  // touches memory for the first time
  const Stopwatch watch;
  for (int i = 0; i < kFirstCalls; ++i) call();
  const double one = std::max(agreement.slowest(watch.seconds() / kFirstCalls), 1e-9);
  return std::max<int64_t>(1, std::llround(seconds / kBlocks / one));
}

std::vector<double> measure(double seconds, const std::vector<std::function<void()>>& calls,
                            const Agreement& agreement) {
  std::vector<int64_t> counts;
  for (const auto& call : calls) counts.push_back(calls_per_block(seconds, call, agreement));
  std::vector<std::vector<double>> blocks(calls.size());
  for (int block = 0; block < kBlocks; ++block) {
    for (size_t which = 0; which < calls.size(); ++which) {
      agreement.start();
      const Stopwatch watch;
      for (int64_t i = 0; i < counts[which]; ++i) calls[which]();
      blocks[which].push_back(watch.seconds() / static_cast<double>(counts[which]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& times : blocks) medians.push_back(median(std::move(times)));
  return medians;
}

std::string short_number(double value) {
  return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> seconds_per_call(double seconds,
                                     const std::vector<std::function<void()>>& calls) {
  return measure(seconds, calls, {[](double value) { return value; }, [] {}});
}

std::vector<double> collective_seconds_per_call(dist::ProcessGroup& group, double seconds,
                                                const std::vector<std::function<void()>>& calls) {
  const auto slowest = [&group](double value) {
    Tensor largest = full({1}, value, DType::Float64);
    group.all_reduce(largest, dist::ReduceOp::Max);
    return largest.item();
  };
  return measure(seconds, calls, {slowest, [&group] { group.barrier(); }});
}

void print_figure(const Figure& figure) {
  std::string line =
      padded("  " + figure.name, 46) + padded(short_number(figure.value) + " " + figure.unit, 18);
  if (!figure.limit_name.empty()) {
    line += padded(figure.limit_name + " " + short_number(figure.limit) + " " + figure.unit, 40) +
            fixed(figure.value / figure.limit, 2) + " of it";
  }
  Console(true).line(line);
}

int run_bench(const BenchOptions& options) {
  using Bench = int (*)(const BenchOptions&);
  static constexpr std::array<std::pair<const char*, Bench>, 5> kBenches = {
      // First: a process that is started inherits the largest memory that this one has had.
      {{"startup", bench_startup},
       {"allreduce", bench_allreduce},
       {"step", bench_step},
       {"data", bench_data},
       {"linear", bench_linear}}};
  for (const auto& [name, bench] : kBenches) {
    const auto& chosen = options.what;
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), name) == chosen.end()) continue;
    Console(true).line(name);
    if (const int code = bench(options); code != 0) return code;
  }
  return 0;
}

}  // namespace lockstep::apps
