// Kernels that only move memory, against memcpy of as many bytes: activations, conversions,
// optimizers, the reduction that all-reduce is made of.
#include <array>
#include <vector>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/cast.h"
#include "kernels/rank_reduce.h"
#include "kernels/sgd.h"
#include "tests/benchmarks/beside_limit.h"

namespace lockstep::benchmarks {
namespace {

// In the second-level cache, in the third, and past both of most machines.
constexpr int64_t kSmall = 16 * 1024;
constexpr int64_t kMiddle = 256 * 1024;
constexpr int64_t kLarge = 16 * 1024 * 1024;

void sizes(benchmark::internal::Benchmark* benchmark) {
  microseconds(benchmark);
  for (const int64_t n : {kSmall, kMiddle, kLarge}) benchmark->Arg(n);
}

std::vector<float> floats(int64_t n) { return std::vector<float>(static_cast<size_t>(n), 0.5f); }

void relu(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto in = floats(n);
  auto out = floats(n);
  beside_limit(
      state, [&] { kernels::cpu::relu_forward(out.data(), in.data(), n); }, Memcpy(8 * n));
}
BENCHMARK(relu)->Apply(sizes);

void gelu(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto in = floats(n);
  auto out = floats(n);
  beside_limit(
      state, [&] { kernels::cpu::gelu_forward(out.data(), in.data(), n); }, Memcpy(8 * n));
}
BENCHMARK(gelu)->Apply(sizes);

template <typename T>
void to_float(benchmark::State& state) {
  const int64_t n = state.range(0);
  const std::vector<T> in(static_cast<size_t>(n), T(0.5f));
  auto out = floats(n);
  beside_limit(
      state, [&] { kernels::cpu::to_float(out.data(), in.data(), n); }, Memcpy(6 * n));
}
BENCHMARK(to_float<Half>)->Apply(sizes);
BENCHMARK(to_float<BFloat16>)->Apply(sizes);

template <typename T>
void from_float(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto in = floats(n);
  std::vector<T> out(static_cast<size_t>(n));
  beside_limit(
      state, [&] { kernels::cpu::from_float(out.data(), in.data(), n); }, Memcpy(6 * n));
}
BENCHMARK(from_float<Half>)->Apply(sizes);
BENCHMARK(from_float<BFloat16>)->Apply(sizes);

void sgd(benchmark::State& state) {
  const int64_t n = state.range(0);
  auto parameter = floats(n);
  const auto grad = floats(n);
  auto momentum = floats(n);
  const std::array<kernels::cpu::SgdParameter<float>, 1> parameters = {
      {{parameter.data(), grad.data(), momentum.data(), n, false}}};
  beside_limit(
      state,
      [&] {
        kernels::cpu::sgd<float>(parameters, {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
      },
      Memcpy(20 * n));
}
BENCHMARK(sgd)->Apply(sizes);

void adamw(benchmark::State& state) {
  const int64_t n = state.range(0);
  auto parameter = floats(n);
  const auto grad = floats(n);
  auto average = floats(n);
  auto square = floats(n);
  std::array<kernels::cpu::AdamWParameter<float>, 1> parameters{};
  parameters[0].parameter = parameter.data();
  parameters[0].grad = grad.data();
  parameters[0].exp_avg = average.data();
  parameters[0].exp_avg_sq = square.data();
  parameters[0].n = n;
  beside_limit(
      state, [&] { kernels::cpu::adamw<float>(parameters, {.lr = 1e-3}); }, Memcpy(28 * n));
}
BENCHMARK(adamw)->Apply(sizes);

void average_of_two_ranks(benchmark::State& state) {
  const int64_t n = state.range(0);
  auto first = floats(n);
  auto second = floats(n);
  const std::array<void*, 2> out = {first.data(), second.data()};
  const std::array<const void*, 2> in = {first.data(), second.data()};
  beside_limit(
      state,
      [&] {
        kernels::cpu::rank_reduce<float>(out.data(), in.data(), 2, 2, n,
                                         kernels::RankReduceOp::Average);
      },
      Memcpy(16 * n));
}
BENCHMARK(average_of_two_ranks)->Apply(sizes);

}  // namespace
}  // namespace lockstep::benchmarks
