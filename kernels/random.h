// The inner loops of PyTorch's CPU random numbers: the Mersenne Twister in bulk, uniforms from its
// words, and Box-Muller over blocks of 16. Two paths that differ in the last bits, as PyTorch's do.
#pragma once

#include <cstdint>

#include "core/base/cpu.h"

namespace lockstep::kernels::cpu {

inline constexpr int64_t kMt19937Words = 624;
/// Box-Muller works on blocks: eight radii in the first half, eight angles in the second.
inline constexpr int64_t kNormalBlock = 16;
/// Random words that one uniform of the type consumes: 2 for double, else 1.
template <typename T>
inline constexpr int64_t kWordsPerUniform = sizeof(T) == 8 ? 2 : 1;

/// Advances the generator by 624 words, in place. The same words on both paths.
void mt19937_twist(uint32_t* state, CpuCapability capability = cpu_capability());

/// output[i] = the word that the generator returns for state[i]. The ranges must not overlap.
void mt19937_temper(uint32_t* output, const uint32_t* state, int64_t n,
                    CpuCapability capability = cpu_capability());

/// output[i] = u * range + from, u in [0, 1) of the low 24 bits of words[i] (Half 11, BFloat16 8;
/// double: the low 53 of words[2i] * 2^32 + words[2i + 1]). One rounding on the AVX2 path, two on
/// the default path.
template <typename T>
void uniform(T* output, const uint32_t* words, int64_t n, T range, T from,
             CpuCapability capability = cpu_capability());

/// data [n] of uniforms in [0, 1) becomes normals, n a multiple of 16. In each block, for j < 8:
///   r = sqrt(-2 ln(1 - data[j])), t = 2 pi data[j + 8]
///   data[j] = r cos(t) std + mean, data[j + 8] = r sin(t) std + mean
/// float: Cephes polynomials on the AVX2 path, the C library on the default path. The other types:
/// the C library, every step rounded to the type, the same on both paths.
template <typename T>
void normal_from_uniform(T* data, int64_t n, T mean, T std,
                         CpuCapability capability = cpu_capability());

namespace avx2 {
void mt19937_twist(uint32_t* state);
void mt19937_temper(uint32_t* output, const uint32_t* state, int64_t n);
void uniform(float* output, const uint32_t* words, int64_t n, float range, float from);
void uniform(double* output, const uint32_t* words, int64_t n, double range, double from);
void normal_from_uniform(float* data, int64_t n, float mean, float std);
}  // namespace avx2

}  // namespace lockstep::kernels::cpu
