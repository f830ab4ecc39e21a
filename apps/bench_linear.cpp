// Large linear layers through tensors and the tape, beside the same three products by the BLAS.
#include "apps/bench.h"
#include "apps/number_format.h"
#include "core/autograd.h"
#include "core/base/error.h"
#include "core/nn/layers.h"
#include "core/random.h"
#include "dist/available_cores.h"
#include "kernels/gemm.h"

namespace lockstep::apps {
namespace {

using kernels::cpu::gemm;

/// Seconds of forward and backward of one layer with n rows, the input's gradient included.
double layer_seconds(int64_t n, int64_t size, double seconds) {
  nn::Linear layer(size, size);
  Tensor input = randn({n, size});
  input.requires_grad_();
  const Tensor grad_output = randn({n, size});
  return seconds_per_call(seconds, [&] {
    layer.zero_grad();
    autograd::zero_grad(input);
    autograd::backward(layer(input), grad_output);
  });
}

double bare_seconds(int64_t n, int64_t size, double seconds) {
  const Tensor input = randn({n, size});
  const Tensor weight = randn({size, size});
  const Tensor output = zeros({n, size});
  const Tensor grad_weight = zeros({size, size});
  const float* x = input.data<float>();
  const float* w = weight.data<float>();
  float* y = output.data<float>();
  return seconds_per_call(seconds, [&] {
    gemm<float>(y, size, {x, size, false}, {w, size, true}, n, size, size, 1.0f, 0.0f);
    gemm<float>(grad_weight.data<float>(), size, {x, size, true}, {x, size, false}, size, size, n,
                1.0f, 0.0f);
    gemm<float>(y, size, {x, size, false}, {w, size, false}, n, size, size, 1.0f, 0.0f);
  });
}

}  // namespace

int bench_linear(const BenchOptions& options) {
  const int threads =
      options.ranks.threads > 0 ? static_cast<int>(options.ranks.threads) : dist::available_cores();
  kernels::cpu::blas_set_num_threads(threads);
  for (const int64_t size : {1024, 2048}) {
    const double operations = 3.0 * 2.0 * static_cast<double>(size * size * size);
    const auto gflops = [&](double seconds) { return operations / seconds / 1e9; };
    print_figure({concat("linear ", size, " x ", size, ", ", size, " rows, ", threads, " threads"),
                  gflops(layer_seconds(size, size, options.seconds * 2)), "GFLOP/s", "bare BLAS",
                  gflops(bare_seconds(size, size, options.seconds * 2))});
  }
  return 0;
}

}  // namespace lockstep::apps
