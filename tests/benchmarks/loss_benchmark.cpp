// Row kernels: their limit is memcpy of what they read and write, which exponentials keep them
// from; the figure says by how much.
#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/layer_norm.h"
#include "kernels/softmax.h"
#include "tests/benchmarks/beside_limit.h"

namespace lockstep::benchmarks {
namespace {

/// {rows, columns}: the documented model, an MLP's last layer, a vocabulary.
void shapes(benchmark::internal::Benchmark* benchmark) {
  microseconds(benchmark);
  benchmark->Args({32, 10})->Args({256, 1000})->Args({64, 32'000});
}

struct Rows {
  explicit Rows(const benchmark::State& state)
      : rows(state.range(0)), columns(state.range(1)), in(static_cast<size_t>(rows * columns)) {
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 13) - 6;
    out = in;
  }
  int64_t nbytes() const { return 4 * rows * columns; }
  int64_t rows, columns;
  std::vector<float> in, out;
};

void cross_entropy(benchmark::State& state) {
  Rows data(state);
  std::vector<int64_t> targets;
  for (int64_t row = 0; row < data.rows; ++row) targets.push_back(row % data.columns);
  float loss = 0;
  beside_limit(
      state,
      [&] {
        kernels::cpu::cross_entropy_forward<float>(&loss, data.out.data(), data.in.data(),
                                                   targets.data(), nullptr, data.rows, data.columns,
                                                   {});
      },
      Memcpy(2 * data.nbytes()));
}
BENCHMARK(cross_entropy)->Apply(shapes);

void softmax(benchmark::State& state) {
  Rows data(state);
  beside_limit(
      state,
      [&] {
        kernels::cpu::softmax_forward(data.out.data(), data.in.data(), data.rows, data.columns);
      },
      Memcpy(2 * data.nbytes()));
}
BENCHMARK(softmax)->Apply(shapes);

void layer_norm(benchmark::State& state) {
  Rows data(state);
  std::vector<float> mean(static_cast<size_t>(data.rows)), rstd(mean);
  const std::vector<float> weight(static_cast<size_t>(data.columns), 1.0f), bias(weight);
  beside_limit(
      state,
      [&] {
        kernels::cpu::layer_norm_forward(data.out.data(), mean.data(), rstd.data(), data.in.data(),
                                         weight.data(), bias.data(), data.rows, data.columns, 1e-5);
      },
      Memcpy(2 * data.nbytes()));
}
BENCHMARK(layer_norm)->Apply(shapes);

}  // namespace
}  // namespace lockstep::benchmarks
