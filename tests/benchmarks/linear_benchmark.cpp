// The linear layer's kernels, bias and activation included, against the bare calls of the BLAS.
#include <cblas.h>

#include <vector>

#include "kernels/linear.h"
#include "tests/benchmarks/beside_limit.h"

namespace lockstep::benchmarks {
namespace {

/// {rows, inputs, outputs}: the documented layer, an MLP's, large ones.
void shapes(benchmark::internal::Benchmark* benchmark) {
  microseconds(benchmark);
  benchmark->Args({32, 1000, 10})->Args({64, 784, 256})->Args({64, 256, 128})->Args({64, 128, 10});
  benchmark->Args({512, 512, 512})->Args({1024, 1024, 1024});
}

struct Layer {
  explicit Layer(const benchmark::State& state)
      : n(static_cast<int>(state.range(0))),
        in(static_cast<int>(state.range(1))),
        out(static_cast<int>(state.range(2))),
        input(filled(n * in)),
        weight(filled(out * in)),
        bias(filled(out)),
        output(filled(n * out)) {}
  static std::vector<float> filled(int size) {
    std::vector<float> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) * 0.1f;
    return values;
  }
  int n, in, out;
  std::vector<float> input, weight, bias, output;
};

void bare(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, int m, int n, int k,
          const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, m, n, k, 1.0f, a,
              transpose_a == CblasNoTrans ? k : m, b, transpose_b == CblasNoTrans ? n : k, 0.0f, c,
              n);
}

void linear_relu_forward(benchmark::State& state) {
  Layer layer(state);
  auto limit = layer.output;
  beside_limit(
      state,
      [&] {
        kernels::cpu::linear_forward(layer.output.data(), layer.input.data(), layer.weight.data(),
                                     layer.bias.data(), layer.n, layer.in, layer.out,
                                     kernels::cpu::Epilogue::Relu);
      },
      [&] {
        bare(CblasNoTrans, CblasTrans, layer.n, layer.out, layer.in, layer.input.data(),
             layer.weight.data(), limit.data());
      });
}
BENCHMARK(linear_relu_forward)->Apply(shapes);

void linear_backward_weight(benchmark::State& state) {
  Layer layer(state);
  auto limit = layer.weight;
  beside_limit(
      state,
      [&] {
        kernels::cpu::linear_backward_weight(layer.weight.data(), layer.output.data(),
                                             layer.input.data(), layer.n, layer.in, layer.out,
                                             false);
      },
      [&] {
        bare(CblasTrans, CblasNoTrans, layer.out, layer.in, layer.n, layer.output.data(),
             layer.input.data(), limit.data());
      });
}
BENCHMARK(linear_backward_weight)->Apply(shapes);

void linear_backward_input(benchmark::State& state) {
  Layer layer(state);
  auto limit = layer.input;
  beside_limit(
      state,
      [&] {
        kernels::cpu::linear_backward_input(layer.input.data(), layer.output.data(),
                                            layer.weight.data(), layer.n, layer.in, layer.out,
                                            false);
      },
      [&] {
        bare(CblasNoTrans, CblasNoTrans, layer.n, layer.in, layer.out, layer.output.data(),
             layer.weight.data(), limit.data());
      });
}
BENCHMARK(linear_backward_input)->Apply(shapes);

}  // namespace
}  // namespace lockstep::benchmarks
