// What the optimizers' kernels share. PyTorch's two CPU paths round differently: a * b + c is fused
// on the AVX2 path and takes two roundings on the default one.
#pragma once

#include <cstdint>

namespace lockstep::kernels::cpu {

// Note [Two paths of one optimizer]
// X_step.h holds the arithmetic as a template over a policy. X_cpu.cpp instantiates it with
// Unfused; X_avx2.cpp with a policy of its own, in an unnamed namespace, so that code compiled for
// AVX2 is visible there alone. Loops are simple enough for the compiler to vectorise; AdamW, with
// many formulas, walks each parameter in pieces that stay in the first-level cache, one loop a
// formula.
inline constexpr int64_t kOptimizerChunk = 256;

struct Unfused {
  template <typename A>
  static A multiply_add(A a, A b, A c) {
    return a * b + c;
  }
};

}  // namespace lockstep::kernels::cpu
