// Conversions on the CPU: 16-bit types go through a block of floats, so that every pair of types
// uses the bulk conversions.
#include "kernels/cast.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/cpu.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kBlock = 256;

bool has_avx2() { return cpu_capability() == CpuCapability::Avx2; }

template <typename T>
constexpr bool kReduced = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Truncated and clamped: C++ leaves a value out of range undefined.
template <typename To, typename From>
To integer_from(From value) {
  constexpr From kMin = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kMax = static_cast<From>(std::numeric_limits<To>::max());
  if (!(value > kMin)) return value <= kMin ? std::numeric_limits<To>::min() : To{0};
  return value < kMax ? static_cast<To>(value) : std::numeric_limits<To>::max();
}

template <typename To, typename From>
To convert_one(From value) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return integer_from<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
void convert_n(To* destination, const From* source, int64_t n) {
  if constexpr (std::is_same_v<To, From>) {
    if (n > 0) std::memcpy(destination, source, static_cast<size_t>(n) * sizeof(To));
  } else if constexpr (std::is_same_v<To, float> && kReduced<From>) {
    to_float(destination, source, n);
  } else if constexpr (kReduced<To> && std::is_same_v<From, float>) {
    from_float(destination, source, n);
  } else if constexpr (kReduced<To> || kReduced<From>) {
    float block[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      convert_n(block, source + i, count);
      convert_n(destination + i, static_cast<const float*>(block), count);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) destination[i] = convert_one<To>(source[i]);
  }
}

}  // namespace

void to_float(float* destination, const Half* source, int64_t n) {
  for (int64_t i = has_avx2() ? to_float_avx2(destination, source, n) : 0; i < n; ++i) {
    destination[i] = static_cast<float>(source[i]);
  }
}

void to_float(float* destination, const BFloat16* source, int64_t n) {
  for (int64_t i = 0; i < n; ++i) destination[i] = static_cast<float>(source[i]);
}

void from_float(Half* destination, const float* source, int64_t n) {
  for (int64_t i = has_avx2() ? from_float_avx2(destination, source, n) : 0; i < n; ++i) {
    destination[i] = Half(source[i]);
  }
}

void from_float(BFloat16* destination, const float* source, int64_t n) {
  for (int64_t i = has_avx2() ? from_float_avx2(destination, source, n) : 0; i < n; ++i) {
    destination[i] = BFloat16(source[i]);
  }
}

void convert(void* destination, DType destination_dtype, const void* source, DType source_dtype,
             int64_t n) {
  dispatch_all(source_dtype, [&](auto from) {
    dispatch_all(destination_dtype, [&](auto to) {
      convert_n(static_cast<decltype(to)*>(destination), static_cast<const decltype(from)*>(source),
                n);
    });
  });
}

}  // namespace lockstep::kernels::cpu
