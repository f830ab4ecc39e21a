// A benchmark and its limit, measured in turns in one run: the table gets the columns limit_us and
// of_limit beside the time.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <vector>

namespace lockstep::benchmarks {

/// Times call() as the benchmark and limit() as what it is compared with. Both should take at least
/// a microsecond: a look at the clock costs some 30 ns.
template <typename Call, typename Limit>
void beside_limit(benchmark::State& state, Call&& call, Limit&& limit) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  double ours = 0;
  double limits = 0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    call();
    benchmark::ClobberMemory();
    const auto middle = Clock::now();
    limit();
    benchmark::ClobberMemory();
    const auto end = Clock::now();
    state.SetIterationTime(seconds(begin, middle));
    ours += seconds(begin, middle);
    limits += seconds(middle, end);
  }
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["limit_us"] = limits / iterations * 1e6;
  state.counters["of_limit"] = ours / limits;
}

/// The limit of what only moves memory: memcpy that reads and writes as many bytes together.
class Memcpy {
 public:
  explicit Memcpy(int64_t bytes_moved)
      : from_(static_cast<size_t>(bytes_moved / 2), 1), to_(from_.size()) {}
  void operator()() {
    std::memcpy(to_.data(), from_.data(), from_.size());
    benchmark::DoNotOptimize(to_.data());
  }

 private:
  std::vector<char> from_;
  std::vector<char> to_;
};

inline void microseconds(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace lockstep::benchmarks
