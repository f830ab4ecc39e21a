// The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998) as loops that a compiler vectorises
// at any width up to 227 words. Included by one source per instruction set; the unnamed namespace
// keeps their copies apart.
#pragma once

#include <cstdint>

#include "kernels/random.h"

namespace lockstep::kernels::cpu {
namespace {

inline uint32_t twisted(uint32_t word, uint32_t next) {
  const uint32_t mixed = (word & 0x80000000u) | (next & 0x7fffffffu);
  // The matrix is applied where the low bit is set: a mask, not a branch.
  return (mixed >> 1) ^ (-(next & 1u) & 0x9908b0dfu);
}

/// state[i] becomes state[i + 397 mod 624] ^ twisted(state[i], state[i + 1 mod 624]), in order; the
/// words 397 ahead are old ones for i < 227, new ones from there on.
inline void twist_in_place(uint32_t* state) {
  constexpr int64_t kMiddle = 397;
  constexpr int64_t kOld = kMt19937Words - kMiddle;
  constexpr int64_t kLast = kMt19937Words - 1;
  for (int64_t i = 0; i < kOld; ++i) {
    state[i] = state[i + kMiddle] ^ twisted(state[i], state[i + 1]);
  }
  for (int64_t i = kOld; i < kLast; ++i) {
    state[i] = state[i - kOld] ^ twisted(state[i], state[i + 1]);
  }
  state[kLast] = state[kMiddle - 1] ^ twisted(state[kLast], state[0]);
}

inline void temper_words(uint32_t* __restrict output, const uint32_t* __restrict state, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t y = state[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    output[i] = y ^ (y >> 18);
  }
}

/// A float in [0, 1) of the low bits: as signed, because that conversion is one instruction.
inline float unit_float(uint32_t word, int bits) {
  const auto low = static_cast<int32_t>(word & ((1u << bits) - 1));
  return static_cast<float>(low) * (1.0f / static_cast<float>(1 << bits));
}

inline double unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high & 0x1fffffu} << 32) | low;
  return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-53;
}

}  // namespace
}  // namespace lockstep::kernels::cpu
