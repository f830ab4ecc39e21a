// Random tensors against a plain loop of the same generator, the standard library's, that keeps the
// raw words.
#include <random>
#include <vector>

#include "core/random.h"
#include "tests/benchmarks/beside_limit.h"

namespace lockstep::benchmarks {
namespace {

/// The limit: n raw words, one after the other.
class RawWords {
 public:
  explicit RawWords(int64_t n) : words_(static_cast<size_t>(n)) {}
  void operator()() {
    for (uint32_t& word : words_) word = static_cast<uint32_t>(engine_());
    benchmark::DoNotOptimize(words_.data());
  }

 private:
  std::mt19937 engine_;
  std::vector<uint32_t> words_;
};

void sizes(benchmark::internal::Benchmark* benchmark) {
  microseconds(benchmark);
  benchmark->Arg(32 * 1000)->Arg(1024 * 1024);
}

void words(benchmark::State& state) {
  std::vector<uint32_t> out(static_cast<size_t>(state.range(0)));
  Generator generator(0);
  beside_limit(
      state, [&] { generator.random_fill(out); }, RawWords(state.range(0)));
}
BENCHMARK(words)->Apply(sizes);

void uniform(benchmark::State& state) {
  Tensor out = zeros({state.range(0)});
  Generator generator(0);
  beside_limit(
      state, [&] { uniform_(out, 0, 1, &generator); }, RawWords(state.range(0)));
}
BENCHMARK(uniform)->Apply(sizes);

void normal(benchmark::State& state) {
  Tensor out = zeros({state.range(0)});
  Generator generator(0);
  beside_limit(
      state, [&] { normal_(out, 0, 1, &generator); }, RawWords(state.range(0)));
}
BENCHMARK(normal)->Apply(sizes);

}  // namespace
}  // namespace lockstep::benchmarks
