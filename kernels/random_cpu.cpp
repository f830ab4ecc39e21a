// Random numbers on the CPU: the portable path, and the choice between it and AVX2.
#include "kernels/random.h"

#include <cmath>
#include <numbers>
#include <type_traits>

#include "core/base/dtype.h"
#include "kernels/mt19937.h"

namespace lockstep::kernels::cpu {
namespace {

/// The bits of a random word that become a uniform of the type: its precision.
template <typename T>
constexpr int kUniformBits = std::is_same_v<T, float>  ? 24
                             : std::is_same_v<T, Half> ? 11
                                                       : 8;

/// One step of Box-Muller on 16 elements. For the 16-bit types each intermediate value is rounded
/// to the type, because PyTorch's scalars of these types round after every operation.
template <typename T>
void normal_block(T* data, accumulate_t<T> mean, accumulate_t<T> std) {
  using A = accumulate_t<T>;
  const auto rounded = [](A value) { return static_cast<A>(static_cast<T>(value)); };
  for (int64_t j = 0; j < kNormalBlock / 2; ++j) {
    const A u1 = rounded(A{1} - static_cast<A>(data[j]));
    const A logarithm = rounded(std::log(u1));
    const A radius = rounded(std::sqrt(rounded(A{-2} * logarithm)));
    const double turn = static_cast<double>(data[j + kNormalBlock / 2]);
    const A angle = rounded(static_cast<A>(2.0 * std::numbers::pi * turn));
    const A cosine = rounded(radius * rounded(std::cos(angle)));
    const A sine = rounded(radius * rounded(std::sin(angle)));
    data[j] = static_cast<T>(rounded(cosine * std) + mean);
    data[j + kNormalBlock / 2] = static_cast<T>(rounded(sine * std) + mean);
  }
}

}  // namespace

void mt19937_twist(uint32_t* state, CpuCapability capability) {
  if (capability == CpuCapability::Avx2) return avx2::mt19937_twist(state);
  twist_in_place(state);
}

void mt19937_temper(uint32_t* output, const uint32_t* state, int64_t n, CpuCapability capability) {
  if (capability == CpuCapability::Avx2) return avx2::mt19937_temper(output, state, n);
  temper_words(output, state, n);
}

template <typename T>
void uniform(T* __restrict output, const uint32_t* __restrict words, int64_t n, T range, T from,
             CpuCapability capability) {
  using A = accumulate_t<T>;
  const bool fused = capability == CpuCapability::Avx2;
  if constexpr (std::is_same_v<T, A>) {
    if (fused) return avx2::uniform(output, words, n, range, from);
  }
  const A wide_range = static_cast<A>(range);
  const A wide_from = static_cast<A>(from);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, double>) {
      output[i] = unit_double(words[2 * i], words[2 * i + 1]) * wide_range + wide_from;
    } else {
      const A unit = unit_float(words[i], kUniformBits<T>);
      output[i] = static_cast<T>(fused ? std::fma(unit, wide_range, wide_from)
                                       : unit * wide_range + wide_from);
    }
  }
}

template <typename T>
void normal_from_uniform(T* data, int64_t n, T mean, T std, CpuCapability capability) {
  if constexpr (std::is_same_v<T, float>) {
    if (capability == CpuCapability::Avx2) return avx2::normal_from_uniform(data, n, mean, std);
  }
  using A = accumulate_t<T>;
  for (int64_t i = 0; i < n; i += kNormalBlock) {
    normal_block<T>(data + i, static_cast<A>(mean), static_cast<A>(std));
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                \
  template void uniform<T>(T*, const uint32_t*, int64_t, T, T, CpuCapability); \
  template void normal_from_uniform<T>(T*, int64_t, T, T, CpuCapability);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
