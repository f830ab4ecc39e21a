// What a batch costs before the model sees it.
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "apps/bench.h"
#include "core/data/dataset.h"
#include "core/random.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kRows = 20'000;
constexpr int64_t kPixels = 784;
constexpr int64_t kBatch = 64;

/// The least that random numbers cost: the generator's words, and nothing made of them.
void draw_words(Generator& generator, int64_t n) {
  std::array<uint32_t, 1000> words;
  for (int64_t begin = 0; begin < n; begin += static_cast<int64_t>(words.size())) {
    generator.random_fill(words);
  }
}

void bench_random(double seconds) {
  Tensor data = zeros({32, 1000});
  Generator generator(0);
  const auto times = seconds_per_call(
      seconds,
      {[&] { normal_(data, 0, 1, &generator); }, [&] { uniform_(data, 0, 1, &generator); },
       [&] { randint(0, 10, {32}, &generator); }, [&] { draw_words(generator, data.numel()); }});
  print_figure({"randn [32, 1000]", times[0] * 1e6, "us", "its random words", times[3] * 1e6});
  print_figure({"rand [32, 1000]", times[1] * 1e6, "us", "its random words", times[3] * 1e6});
  print_figure({"randint [32]", times[2] * 1e6, "us", "", 0});
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
  // The least: the same rows read in the same order, as many bytes written.
  const auto copy = [&] {
    auto* out = static_cast<char*>(data.raw_data());
    for (const int64_t row : next()) {
      for (int part = 0; part < 4; ++part, out += kPixels) {
        std::memcpy(out, pixels.data() + row * kPixels, kPixels);
      }
    }
  };
  const auto times =
      seconds_per_call(seconds, {[&] { dataset.gather(next(), data, target); }, copy});
  print_figure({"gather 64 images of 784 bytes", times[0] * 1e6, "us", "memcpy", times[1] * 1e6});
}

}  // namespace

int bench_data(const BenchOptions& options) {
  manual_seed(0);
  bench_random(options.seconds / 2);
  bench_gather(options.seconds / 2);
  return 0;
}

}  // namespace lockstep::apps
