// The two 16-bit floating types, bit-compatible with CUDA's __half and __nv_bfloat16 (plain
// uint16_t inside). Arithmetic is done in float; a value is rounded once, to nearest even, when it
// is stored.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace lockstep {

/// IEEE binary16 bits of a float: nearest even, overflow to infinity, subnormals kept, NaN quiet.
constexpr uint16_t half_bits_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the top payload bits, as F16C does
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to inf
  if (magnitude < 0x38800000u) {                                               // subnormal half
    if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);
    const uint32_t exponent = magnitude >> 23;
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126u - exponent;
    const uint32_t halfway = 1u << (shift - 1);
    const uint32_t quotient = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t up = (rest > halfway || (rest == halfway && (quotient & 1u))) ? 1u : 0u;
    return static_cast<uint16_t>(sign | (quotient + up));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

/// Exact: every half is a float.
constexpr float float_from_half_bits(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1fu) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/// bfloat16 bits of a float: nearest even, NaN stays NaN.
constexpr uint16_t bfloat16_bits_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float float_from_bfloat16_bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// IEEE binary16: 11 bits of precision, largest 65504.
struct Half {
  uint16_t bits = 0;

  constexpr Half() = default;
  constexpr explicit Half(float value) : bits(half_bits_from_float(value)) {}
  constexpr explicit operator float() const { return float_from_half_bits(bits); }
  constexpr explicit operator double() const { return float_from_half_bits(bits); }
};

/// The upper half of a float: 8 bits of precision, float's range.
struct BFloat16 {
  uint16_t bits = 0;

  constexpr BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits(bfloat16_bits_from_float(value)) {}
  constexpr explicit operator float() const { return float_from_bfloat16_bits(bits); }
  constexpr explicit operator double() const { return float_from_bfloat16_bits(bits); }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace lockstep
