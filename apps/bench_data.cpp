// What a batch costs before the model sees it.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "apps/bench.h"
#include "core/data/dataset.h"
#include "core/random.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kRows = 20'000;
constexpr int64_t kPixels = 784;
constexpr int64_t kBatch = 64;

void bench_random(double seconds) {
  Tensor data = zeros({32, 1000});
  Tensor copy = zeros({32, 1000});
  const double memcpy_us =
      1e6 * seconds_per_call(seconds, [&] {
        std::memcpy(copy.raw_data(), data.raw_data(), static_cast<size_t>(data.nbytes()));
      });
  const double normal_us = 1e6 * seconds_per_call(seconds, [&] { normal_(data); });
  const double uniform_us = 1e6 * seconds_per_call(seconds, [&] { uniform_(data); });
  const double randint_us = 1e6 * seconds_per_call(seconds, [&] { randint(0, 10, {32}); });
  print_figure({"randn [32, 1000]", normal_us, "us", "memcpy", memcpy_us});
  print_figure({"rand [32, 1000]", uniform_us, "us", "memcpy", memcpy_us});
  print_figure({"randint [32]", randint_us, "us", "", 0});
}

void bench_gather(double seconds) {
  std::vector<uint8_t> pixels(static_cast<size_t>(kRows * kPixels), 7);
  const data::Dataset dataset(Tensor::from_values<uint8_t>(pixels, {kRows, kPixels}),
                              zeros({kRows}, DType::Int64), 10, {.scale = 0.01f, .shift = -0.5f});
  const auto order = randperm(kRows).to_vector<int64_t>();
  Tensor data = zeros({kBatch, kPixels});
  Tensor target = zeros({kBatch}, DType::Int64);
  int64_t at = 0;
  const auto next = [&] {
    at = at + kBatch <= kRows - kBatch ? at + kBatch : 0;
    return std::span(order).subspan(static_cast<size_t>(at), kBatch);
  };
  const double gather_us =
      1e6 * seconds_per_call(seconds, [&] { dataset.gather(next(), data, target); });
  // The least: the same rows read in the same order, the same floats written.
  const double bare_us = 1e6 * seconds_per_call(seconds, [&] {
                           auto* out = static_cast<char*>(data.raw_data());
                           for (const int64_t row : next()) {
                             for (int copy = 0; copy < 4; ++copy, out += kPixels) {
                               std::memcpy(out, pixels.data() + row * kPixels, kPixels);
                             }
                           }
                         });
  print_figure({"gather 64 images of 784 bytes", gather_us, "us", "memcpy", bare_us});
}

}  // namespace

int bench_data(const BenchOptions& options) {
  manual_seed(0);
  bench_random(options.seconds / 2);
  bench_gather(options.seconds / 2);
  return 0;
}

}  // namespace lockstep::apps
