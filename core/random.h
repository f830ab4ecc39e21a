// PyTorch's CPU random streams, bit for bit: the same seed gives the same numbers. Two paths, as
// there: AVX2 (what PyTorch runs on any modern x86) and default; they differ in the last bits of
// some values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace lockstep {

/// A Mersenne Twister with PyTorch's way of drawing from it.
class Generator {
 public:
  static constexpr int kStateWords = 624;

  explicit Generator(uint64_t seed = 67280421310721ULL) { manual_seed(seed); }

  /// Restarts the stream (only the low 32 bits matter to it) and forgets a cached normal.
  void manual_seed(uint64_t seed);
  uint64_t initial_seed() const { return seed_; }

  uint32_t random() {
    if (next_ == kStateWords) refill();
    return temper(state_[static_cast<size_t>(next_++)]);
  }
  /// First draw is the high word.
  uint64_t random64() {
    const uint64_t high = random();
    return (high << 32) | random();
  }
  /// 53-bit uniform in [0, 1).
  double uniform_double() {
    return static_cast<double>(random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }
  /// out[i] = raw 32-bit draws, the same stream as random(), faster in bulk.
  void random_fill(std::span<uint32_t> out);

  /// The second value of a scalar Box-Muller pair, kept for the next call.
  std::optional<double> cached_normal;

  /// Everything that determines the rest of the stream, for checkpoints; set_state throws
  /// Error(BadData) for a state that no generator can have.
  std::vector<uint8_t> state() const;
  void set_state(std::span<const uint8_t> state);

 private:
  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  void refill();

  std::array<uint32_t, kStateWords> state_{};
  int next_ = kStateWords;
  uint64_t seed_ = 0;
};

/// This thread's generator (a rank may be a thread), the source when none is given.
Generator& default_generator();
/// Seeds it: torch.manual_seed.
void manual_seed(uint64_t seed);

/// In-place fills of a contiguous tensor. Elements are drawn in order, whatever the device: a CUDA
/// tensor is filled on the CPU and copied. `generator` null means default_generator().
void uniform_(Tensor& tensor, double from = 0.0, double to = 1.0, Generator* generator = nullptr);
void normal_(Tensor& tensor, double mean = 0.0, double std = 1.0, Generator* generator = nullptr);
/// 1 with probability p, else 0; one 53-bit uniform an element (PyTorch without MKL).
void bernoulli_(Tensor& tensor, double p, Generator* generator = nullptr);

/// New CPU tensors: torch.rand, torch.randn, torch.randint(low, high) (Int64), torch.randperm
/// (Int64). randint follows PyTorch <= 2.6: 64-bit draws only for ranges of 2^32 and more.
Tensor rand(const Shape& shape, DType dtype = DType::Float32, Generator* generator = nullptr);
Tensor randn(const Shape& shape, DType dtype = DType::Float32, Generator* generator = nullptr);
Tensor randint(int64_t low, int64_t high, const Shape& shape, Generator* generator = nullptr);
Tensor randperm(int64_t n, Generator* generator = nullptr);

/// torch's int64 random_(): 63 random bits (DataLoader and RandomSampler draw their seeds so).
int64_t random_int64(Generator& generator);

}  // namespace lockstep
