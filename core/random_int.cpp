// Whole random numbers and permutations. A range is reached by the remainder, as in PyTorch, so
// small numbers are a little likelier; the bias is at most range / 2^32.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/random.h"

namespace lockstep {
namespace {

constexpr int64_t kChunk = 1024;

Generator& or_default(Generator* generator) {
  return generator != nullptr ? *generator : default_generator();
}

}  // namespace

Tensor randint(int64_t low, int64_t high, const Shape& shape, Generator* generator) {
  LOCKSTEP_CHECK_KIND(Usage, low < high, "randint: low ", low, ", high ", high,
                      ", expected low < high");
  Tensor result = empty(shape, DType::Int64);
  int64_t* output = result.data<int64_t>();
  const int64_t n = result.numel();
  Generator& source = or_default(generator);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto shifted = [low](uint64_t value) {  // in unsigned, where the sum may wrap round
    return static_cast<int64_t>(value + static_cast<uint64_t>(low));
  };
  if (range >= uint64_t{1} << 32) {
    for (int64_t i = 0; i < n; ++i) output[i] = shifted(source.random64() % range);
    return result;
  }
  std::array<uint32_t, kChunk> words;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    source.random_fill(std::span(words.data(), static_cast<size_t>(count)));
    for (int64_t i = 0; i < count; ++i) {
      output[begin + i] = shifted(words[static_cast<size_t>(i)] % static_cast<uint32_t>(range));
    }
  }
  return result;
}

Tensor randperm(int64_t n, Generator* generator) {
  LOCKSTEP_CHECK_KIND(Usage, n >= 0, "randperm: n is ", n, ", expected at least 0");
  Tensor result = empty({n}, DType::Int64);
  int64_t* output = result.data<int64_t>();
  Generator& source = or_default(generator);
  // Above this, 32 bits would be too coarse: PyTorch's limit, and its other way of shuffling.
  constexpr int64_t kSmall = (int64_t{1} << 32) / 20;
  if (n < kSmall) {
    std::iota(output, output + n, int64_t{0});
    for (int64_t i = 0; i + 1 < n; ++i) {
      const auto offset = static_cast<int64_t>(source.random() % static_cast<uint32_t>(n - i));
      std::swap(output[i], output[i + offset]);
    }
    return result;
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto place = static_cast<int64_t>(source.random64() % static_cast<uint64_t>(i + 1));
    output[i] = i;
    std::swap(output[i], output[place]);
  }
  return result;
}

}  // namespace lockstep
