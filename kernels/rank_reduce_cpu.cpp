// rank_reduce on any x86-64, and the choice between it and the AVX2 path.
#include "core/base/cpu.h"
#include "kernels/rank_reduce_blocks.h"

namespace lockstep::kernels::cpu {

namespace avx2 {

/// The first argument only chooses the element type.
#define LOCKSTEP_DECLARE(T)                                                                    \
  void rank_reduce(const T*, void* const* outputs, const void* const* inputs, int num_outputs, \
                   int num_inputs, int64_t n, RankReduceOp op);
LOCKSTEP_DECLARE(float)
LOCKSTEP_DECLARE(double)
LOCKSTEP_DECLARE(Half)
LOCKSTEP_DECLARE(BFloat16)
LOCKSTEP_DECLARE(int64_t)
LOCKSTEP_DECLARE(uint8_t)
#undef LOCKSTEP_DECLARE

}  // namespace avx2

namespace {

struct Lanes {
  template <typename T>
  static void widen(float* out, const T* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
  }
  template <typename T>
  static void narrow(T* out, const float* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = T(in[i]);
  }
};

}  // namespace

template <typename T>
void rank_reduce(void* const* outputs, const void* const* inputs, int num_outputs, int num_inputs,
                 int64_t n, RankReduceOp op) {
  if (cpu_capability() == CpuCapability::Avx2) {
    avx2::rank_reduce(static_cast<const T*>(nullptr), outputs, inputs, num_outputs, num_inputs, n,
                      op);
  } else {
    RankReduceBlocks<Lanes, T>::run(outputs, inputs, num_outputs, num_inputs, n, op);
  }
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void rank_reduce<T>(void* const*, const void* const*, int, int, int64_t, RankReduceOp);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
LOCKSTEP_INSTANTIATE(int64_t)
LOCKSTEP_INSTANTIATE(uint8_t)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
