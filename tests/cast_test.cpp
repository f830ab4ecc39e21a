// The bulk conversions give the bits of the scalar ones, whatever the length and alignment, and
// convert() covers every pair of types.
#include "kernels/cast.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/base/cpu.h"
#include "kernels/pointwise.h"

using namespace lockstep;
namespace cpu = lockstep::kernels::cpu;

namespace {

constexpr DType kAllTypes[] = {DType::Float32,  DType::Float64, DType::Float16,
                               DType::BFloat16, DType::Int64,   DType::UInt8};

/// Every float whose upper half is a 16-bit pattern, neighbours of ties, and random patterns.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
    const float half = float_from_half_bits(static_cast<uint16_t>(high));
    values.push_back(half);
    const uint32_t bits = std::bit_cast<uint32_t>(half);
    for (const uint32_t step : {0xfffu, 0x1000u, 0x1001u}) {
      values.push_back(std::bit_cast<float>(bits + step));
    }
  }
  std::mt19937 engine(7);
  for (int i = 0; i < 200000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(engine())));
  }
  return values;
}

template <typename T>
int count_different(const std::vector<T>& bulk, const std::vector<float>& source) {
  int different = 0;
  for (size_t i = 0; i < bulk.size(); ++i) different += bulk[i].bits != T(source[i]).bits;
  return different;
}

template <typename T>
void check_from_float() {
  const std::vector<float> source = all_kinds_of_floats();
  std::vector<T> bulk(source.size());
  cpu::from_float(bulk.data(), source.data(), static_cast<int64_t>(source.size()));
  CHECK(count_different(bulk, source) == 0);
}

template <typename T>
void check_to_float() {
  std::vector<T> source(0x10000);
  for (size_t i = 0; i < source.size(); ++i) source[i].bits = static_cast<uint16_t>(i);
  std::vector<float> bulk(source.size());
  cpu::to_float(bulk.data(), source.data(), static_cast<int64_t>(source.size()));
  int different = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    different +=
        std::bit_cast<uint32_t>(bulk[i]) != std::bit_cast<uint32_t>(static_cast<float>(source[i]));
  }
  CHECK(different == 0);
}

/// One value of `dtype`, converted from a double.
std::vector<unsigned char> stored(DType dtype, double value) {
  std::vector<unsigned char> bytes(8);
  cpu::convert(bytes.data(), dtype, &value, DType::Float64, 1);
  return bytes;
}

double loaded(DType dtype, const void* bytes) {
  double value = 0.0;
  cpu::convert(&value, DType::Float64, bytes, dtype, 1);
  return value;
}

}  // namespace

TEST_CASE("bulk float to Half and BFloat16 equal the scalar conversions") {
  check_from_float<Half>();
  check_from_float<BFloat16>();
}

TEST_CASE("bulk Half and BFloat16 to float equal the scalar conversions") {
  check_to_float<Half>();
  check_to_float<BFloat16>();
}

TEST_CASE("the AVX2 functions convert whole groups of eight and nothing after them") {
  if (cpu_capability() != CpuCapability::Avx2) {
    MESSAGE("skipped: this CPU (or LOCKSTEP_CPU_CAPABILITY) has no AVX2");
    return;
  }
  std::vector<float> source = all_kinds_of_floats();
  source.resize(1003);
  std::vector<Half> half(source.size());
  std::vector<BFloat16> bfloat(source.size());
  CHECK(cpu::from_float_avx2(half.data(), source.data(), 1003) == 1000);
  CHECK(cpu::from_float_avx2(bfloat.data(), source.data(), 1003) == 1000);
  for (size_t i = 1000; i < 1003; ++i) {
    CHECK(half[i].bits == 0);
    CHECK(bfloat[i].bits == 0);
  }
  std::vector<float> back(source.size(), -1.0f);
  CHECK(cpu::to_float_avx2(back.data(), half.data(), 7) == 0);
  CHECK(back[0] == -1.0f);
  CHECK(cpu::to_float_avx2(back.data(), half.data(), 1003) == 1000);
  CHECK(back[1000] == -1.0f);
}

TEST_CASE("every length and alignment, with the elements around left alone") {
  std::vector<float> source(100);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i) * 0.37f - 11.0f;
  for (int64_t offset = 0; offset < 3; ++offset) {
    for (int64_t n = 0; n <= 40; ++n) {
      std::vector<Half> half(64, Half(99.0f));
      cpu::from_float(half.data() + offset, source.data() + offset, n);
      std::vector<float> back(64, 99.0f);
      cpu::to_float(back.data() + offset, half.data() + offset, n);
      for (int64_t i = 0; i < 64; ++i) {
        const auto at = static_cast<size_t>(i);
        const bool inside = i >= offset && i < offset + n;
        REQUIRE(half[at].bits == Half(inside ? source[at] : 99.0f).bits);
        REQUIRE(back[at] == (inside ? static_cast<float>(half[at]) : 99.0f));
      }
    }
  }
}

TEST_CASE("convert: small integers are exact between all pairs of types") {
  constexpr int64_t kCount = 300;  // more than one block
  for (const DType from : kAllTypes) {
    for (const DType to : kAllTypes) {
      std::vector<unsigned char> source(kCount * 8);
      std::vector<unsigned char> destination(kCount * 8);
      for (int64_t i = 0; i < kCount; ++i) {
        const std::vector<unsigned char> one = stored(from, static_cast<double>(i % 200));
        std::copy_n(one.begin(), element_size(from), source.begin() + i * element_size(from));
      }
      cpu::convert(destination.data(), to, source.data(), from, kCount);
      for (int64_t i = 0; i < kCount; ++i) {
        REQUIRE(loaded(to, destination.data() + i * element_size(to)) == i % 200);
      }
    }
  }
}

TEST_CASE("convert: floating to integer truncates and clamps, NaN is 0") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {2.9, -2.9, 300.0, -1.0, 1e30, -1e30, inf, -inf, std::nan("")};
  std::vector<int64_t> wide(values.size());
  std::vector<uint8_t> bytes(values.size());
  const auto n = static_cast<int64_t>(values.size());
  cpu::convert(wide.data(), DType::Int64, values.data(), DType::Float64, n);
  cpu::convert(bytes.data(), DType::UInt8, values.data(), DType::Float64, n);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  CHECK(wide == std::vector<int64_t>{2, -2, 300, -1, kMax, kMin, kMax, kMin, 0});
  CHECK(bytes == std::vector<uint8_t>{2, 0, 255, 0, 255, 0, 255, 0, 0});
}

TEST_CASE("fill: every type, and no element beyond") {
  for (const DType dtype : kAllTypes) {
    std::vector<unsigned char> memory(8 * 10, 0xab);
    cpu::fill(memory.data(), dtype, 3.0, 9);
    for (int64_t i = 0; i < 9; ++i) {
      CHECK(loaded(dtype, memory.data() + i * element_size(dtype)) == 3.0);
    }
    CHECK(memory[static_cast<size_t>(9 * element_size(dtype))] == 0xab);
  }
}
