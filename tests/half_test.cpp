// The scalar 16-bit conversions, against their definitions: every bit pattern, every midpoint
// between neighbours, and the edges of the range.
#include "core/base/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

using namespace lockstep;

namespace {

/// sign * 1.mantissa * 2^(exponent - bias), written down from the IEEE definition.
double decode(uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0 + fraction, exponent - bias);
}

/// Runs every pattern through float and back, and every tie between finite neighbours.
template <typename T>
void check_type(int mantissa_bits, int bias) {
  const uint16_t infinity = static_cast<uint16_t>(0x7fff >> mantissa_bits << mantissa_bits);
  int wrong = 0;
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    T value;
    value.bits = static_cast<uint16_t>(pattern);
    const double expected = decode(value.bits, mantissa_bits, bias);
    const float decoded = static_cast<float>(value);
    const uint16_t back = T(decoded).bits;
    if (std::isnan(expected)) {
      wrong += !std::isnan(decoded) || !std::isnan(static_cast<float>(T(decoded))) ||
               (back & 0x8000) != (value.bits & 0x8000);
    } else {
      wrong += decoded != expected || std::signbit(decoded) != std::signbit(expected) ||
               back != value.bits || static_cast<double>(value) != expected;
    }
  }
  CHECK(wrong == 0);

  for (uint16_t below = 0; below < infinity; ++below) {
    const auto above = static_cast<uint16_t>(below + 1);
    // Past the largest number the next one would be at the same distance: what rounds to it is inf.
    const double next = above == infinity ? 2 * decode(below, mantissa_bits, bias) -
                                                decode(below - 1, mantissa_bits, bias)
                                          : decode(above, mantissa_bits, bias);
    const auto middle = static_cast<float>((decode(below, mantissa_bits, bias) + next) / 2);
    const uint16_t even = (below & 1) == 0 ? below : above;
    for (const uint16_t sign : {0x0000, 0x8000}) {
      const float signed_middle = sign != 0 ? -middle : middle;
      wrong += T(signed_middle).bits != (even | sign);
      wrong += T(std::nextafter(signed_middle, 0.0f)).bits != (below | sign);
      wrong += T(std::nextafter(signed_middle, 2 * signed_middle)).bits != (above | sign);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("Half: every pattern round trips, every tie goes to even") { check_type<Half>(10, 15); }

TEST_CASE("BFloat16: every pattern round trips, every tie goes to even") {
  check_type<BFloat16>(7, 127);
}

TEST_CASE("Half: the edges of the range") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(Half(65504.0f).bits == 0x7bff);
  CHECK(Half(65519.996f).bits == 0x7bff);
  CHECK(Half(65520.0f).bits == 0x7c00);
  CHECK(Half(1e30f).bits == 0x7c00);
  CHECK(Half(-inf).bits == 0xfc00);
  CHECK(Half(0x1p-24f).bits == 1);
  CHECK(Half(0x1p-25f).bits == 0);                        // a tie with zero
  CHECK(Half(std::nextafter(0x1p-25f, 1.0f)).bits == 1);  // just above it
  CHECK(Half(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(Half(-0.0f).bits == 0x8000);
}

TEST_CASE("BFloat16: the edges of the range") {
  const float max = std::numeric_limits<float>::max();
  CHECK(BFloat16(max).bits == 0x7f80);
  CHECK(BFloat16(-max).bits == 0xff80);
  CHECK(BFloat16(-0.0f).bits == 0x8000);
  CHECK(BFloat16(1.0f).bits == 0x3f80);
  // A NaN whose payload is in the low bits only must not become infinity.
  CHECK(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST_CASE("conversions are constant expressions") {
  static_assert(Half(1.5f).bits == 0x3e00);
  static_assert(static_cast<float>(BFloat16(-2.0f)) == -2.0f);
  CHECK(sizeof(Half) == 2);
}
