// The kernels that take a block for each row, on emulated devices against those of the CPU:
// softmax, log_softmax and layer_norm, forward and backward.
#include "kernels/layer_norm.h"
#include "kernels/softmax.h"
#include "tests/emulation/testing/product.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace cpu = lockstep::kernels::cpu;
namespace cuda = lockstep::kernels::cuda;

namespace {

struct Shape {
  int64_t rows;
  int64_t n;
};
constexpr Shape kShapes[] = {{0, 4},  {3, 0},  {1, 1},    {5, 1},    {3, 10},   {2, 31},
                             {2, 32}, {3, 33}, {2, 1023}, {2, 1025}, {40, 128}, {1, 4100}};

size_t to_size(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

TEST_CASE_TEMPLATE("softmax and log_softmax", T, LOCKSTEP_FLOATING) {
  using A = accumulate_t<T>;
  for (const auto& [rows, n] : kShapes) {
    CAPTURE(rows);
    CAPTURE(n);
    const int64_t numel = rows * n;
    const std::vector<T> input = random_values<T>(numel, 1, -8, 8);
    const std::vector<T> grad = random_values<T>(numel, 2);
    std::vector<T> expected(to_size(numel)), expected_log(to_size(numel));
    cpu::softmax_forward<T>(expected.data(), input.data(), rows, n);
    cpu::log_softmax_forward<T>(expected_log.data(), input.data(), rows, n);
    const DeviceArray<T> x(input), g(grad), y(to_size(numel)), log_y(to_size(numel));
    on_stream([&](kernels::Stream stream) {
      cuda::softmax_forward<T>(y.data(), x.data(), rows, n, stream);
      cuda::log_softmax_forward<T>(log_y.data(), x.data(), rows, n, stream);
    });
    // exp errs by its argument's rounding (below 16 eps) and by some units of its own; the sum by
    // its additions.
    const double bound = (32.0 + static_cast<double>(n) / 8) * kEpsilon<A>;
    CHECK(close(y.to_host(), expected, kEpsilon<T> + bound, 0x1p-24 * (sizeof(T) == 2)));
    CHECK(close(log_y.to_host(), expected_log, kEpsilon<T>, bound));
    for (const bool accumulate : {false, true}) {
      std::vector<T> want = random_values<T>(numel, 3), want_log = random_values<T>(numel, 4);
      const DeviceArray<T> grad_input(want), log_grad_input(want_log), out(expected),
          log_out(expected_log);
      cpu::softmax_backward<T>(want.data(), grad.data(), expected.data(), rows, n, accumulate);
      cpu::log_softmax_backward<T>(want_log.data(), grad.data(), expected_log.data(), rows, n,
                                   accumulate);
      on_stream([&](kernels::Stream stream) {
        cuda::softmax_backward<T>(grad_input.data(), g.data(), out.data(), rows, n, accumulate,
                                  stream);
        cuda::log_softmax_backward<T>(log_grad_input.data(), g.data(), log_out.data(), rows, n,
                                      accumulate, stream);
      });
      const double sum_bound = 2 * bound * (1 + std::sqrt(static_cast<double>(n)));
      CHECK(close(grad_input.to_host(), want, kEpsilon<T>, sum_bound));
      CHECK(close(log_grad_input.to_host(), want_log, kEpsilon<T>, 2 * sum_bound));
    }
  }
}

TEST_CASE("softmax of rows with infinities and NaN is what the CPU's is") {
  std::vector<float> input = {-INFINITY, 1, 2,        -INFINITY, 5,   -INFINITY, -INFINITY,
                              -INFINITY, 1, INFINITY, 2,         NAN, 0,         1e30f};
  const int64_t n = 7;
  std::vector<float> expected(input.size());
  cpu::softmax_forward<float>(expected.data(), input.data(), 2, n);
  const DeviceArray<float> x(input), y(input.size());
  on_stream([&](kernels::Stream stream) {
    cuda::softmax_forward<float>(y.data(), x.data(), 2, n, stream);
  });
  CHECK(close(y.to_host(), expected, 1e-6, 0.0));
}

TEST_CASE_TEMPLATE("layer_norm", T, LOCKSTEP_FLOATING) {
  using A = accumulate_t<T>;
  for (const auto& [rows, n] : kShapes) {
    CAPTURE(rows);
    CAPTURE(n);
    if (n == 0) continue;  // a mean of nothing
    const int64_t numel = rows * n;
    const std::vector<T> input = random_values<T>(numel, 1, -2, 4),
                         grad = random_values<T>(numel, 2);
    const std::vector<T> weight = random_values<T>(n, 3), bias = random_values<T>(n, 4);
    std::vector<T> want(to_size(numel));
    std::vector<A> want_mean(to_size(rows)), want_rstd(to_size(rows));
    const double eps = 1e-2;  // the variance of a row of one element is 0
    cpu::layer_norm_forward<T>(want.data(), want_mean.data(), want_rstd.data(), input.data(),
                               weight.data(), bias.data(), rows, n, eps);
    const DeviceArray<T> x(input), g(grad), w(weight), b(bias), y(to_size(numel));
    const DeviceArray<A> mean(to_size(rows)), rstd(to_size(rows));
    on_stream([&](kernels::Stream stream) {
      cuda::layer_norm_forward<T>(y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(),
                                  rows, n, eps, stream);
    });
    // At most n additions of values up to 4; 1 / sqrt(var + eps) is at most 10.
    const double bound = 8 * (8.0 + std::sqrt(static_cast<double>(n))) * kEpsilon<A>;
    CHECK(close(mean.to_host(), want_mean, bound, bound));
    CHECK(close(rstd.to_host(), want_rstd, bound, 0.0));
    CHECK(close(y.to_host(), want, kEpsilon<T>, 10 * bound));

    const DeviceArray<A> saved_mean(want_mean), saved_rstd(want_rstd);
    for (const bool accumulate : {false, true}) {
      std::vector<T> want_bias = random_values<T>(n, 5), want_weight = random_values<T>(n, 6);
      std::vector<T> want_input = random_values<T>(numel, 7);
      const DeviceArray<T> grad_bias(want_bias), grad_weight(want_weight), grad_input(want_input);
      cpu::layer_norm_backward_bias<T>(want_bias.data(), grad.data(), rows, n, accumulate);
      cpu::layer_norm_backward_weight<T>(want_weight.data(), grad.data(), input.data(),
                                         want_mean.data(), want_rstd.data(), rows, n, accumulate);
      cpu::layer_norm_backward_input<T>(want_input.data(), grad.data(), input.data(), weight.data(),
                                        want_mean.data(), want_rstd.data(), rows, n, accumulate);
      on_stream([&](kernels::Stream stream) {
        cuda::layer_norm_backward_bias<T>(grad_bias.data(), g.data(), rows, n, accumulate, stream);
        cuda::layer_norm_backward_weight<T>(grad_weight.data(), g.data(), x.data(),
                                            saved_mean.data(), saved_rstd.data(), rows, n,
                                            accumulate, stream);
        cuda::layer_norm_backward_input<T>(grad_input.data(), g.data(), x.data(), w.data(),
                                           saved_mean.data(), saved_rstd.data(), rows, n,
                                           accumulate, stream);
      });
      const double sum_bound = 16 * static_cast<double>(rows + 1) * kEpsilon<A>;
      CHECK(close(grad_bias.to_host(), want_bias, kEpsilon<T>, sum_bound));
      CHECK(close(grad_weight.to_host(), want_weight, kEpsilon<T>, 10 * sum_bound));
      CHECK(close(grad_input.to_host(), want_input, kEpsilon<T>, 100 * bound));
    }
  }
}
