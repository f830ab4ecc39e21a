// Large linear layers through tensors and the tape, beside the same three products by the BLAS.
#include "apps/bench.h"
#include "core/autograd.h"
#include "core/base/error.h"
#include "core/nn/layers.h"
#include "core/random.h"
#include "dist/available_cores.h"
#include "kernels/gemm.h"

namespace lockstep::apps {
namespace {

/// Seconds of forward and backward of one layer with `size` rows, the input's gradient included,
/// and of its three bare products on the same matrices.
std::vector<double> layer_and_bare_seconds(int64_t size, double seconds) {
  nn::Linear layer(size, size);
  Tensor input = randn({size, size});
  input.requires_grad_();
  const Tensor grad_output = randn({size, size});
  const Tensor output = zeros({size, size});
  const Tensor grad_weight = zeros({size, size});
  const Tensor grad_input = zeros({size, size});
  const float* x = input.data<float>();
  const float* w = layer.weight.data<float>();
  const float* g = grad_output.data<float>();
  const auto product = [size](const Tensor& c, const float* a, bool transpose_a, const float* b,
                              bool transpose_b) {
    kernels::cpu::gemm<float>(c.data<float>(), size, {a, size, transpose_a}, {b, size, transpose_b},
                              size, size, size, 1.0f, 0.0f);
  };
  return seconds_per_call(seconds, {[&] {
                                      layer.zero_grad();
                                      autograd::zero_grad(input);
                                      autograd::backward(layer(input), grad_output);
                                    },
                                    [&] {
                                      product(output, x, false, w, true);
                                      product(grad_weight, g, true, x, false);
                                      product(grad_input, g, false, w, false);
                                    }});
}

}  // namespace

int bench_linear(const BenchOptions& options) {
  const int threads =
      options.ranks.threads > 0 ? static_cast<int>(options.ranks.threads) : dist::available_cores();
  kernels::cpu::blas_set_num_threads(threads);
  for (const int64_t size : {1024, 2048}) {
    const double operations = 3.0 * 2.0 * static_cast<double>(size * size * size);
    const auto times = layer_and_bare_seconds(size, options.seconds * 2);
    print_figure({concat("linear ", size, " x ", size, ", ", size, " rows, ", threads, " threads"),
                  operations / times[0] / 1e9, "GFLOP/s", "bare BLAS",
                  operations / times[1] / 1e9});
  }
  return 0;
}

}  // namespace lockstep::apps
