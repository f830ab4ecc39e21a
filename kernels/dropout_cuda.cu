// Dropout on the device: four elements a thread, one call of Philox for each four.
#include "kernels/dropout.h"
#include "kernels/elementwise.cuh"

namespace lockstep::kernels::cuda {
namespace {

constexpr int kWords = 4;  // of one call of Philox

struct Words {
  uint32_t values[kWords];
};

/// Philox4x32-10 of the key and a counter whose upper 64 bits are zero.
__device__ Words philox(uint64_t key, uint64_t counter) {
  uint32_t key_low = static_cast<uint32_t>(key), key_high = static_cast<uint32_t>(key >> 32);
  Words c{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53u} * c.values[0];
    const uint64_t second = uint64_t{0xCD9E8D57u} * c.values[2];
    c = {{static_cast<uint32_t>(second >> 32) ^ c.values[1] ^ key_low,
          static_cast<uint32_t>(second),
          static_cast<uint32_t>(first >> 32) ^ c.values[3] ^ key_high,
          static_cast<uint32_t>(first)}};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return c;
}

/// The factor of a kept element, with the rounding of 1 / keep in the element type.
template <typename T>
accumulate_t<T> kept_factor(double keep) {
  using A = accumulate_t<T>;
  return static_cast<A>(static_cast<T>(A{1} / static_cast<A>(keep)));
}

/// A dropped element is multiplied by zero: infinity and NaN are not hidden.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(T* output, uint8_t* mask, const T* input, int64_t n, uint64_t threshold,
                   accumulate_t<T> factor, uint64_t seed, uint64_t offset) {
  using A = accumulate_t<T>;
  const bool aligned =
      is_aligned<kWords>(output) && is_aligned<kWords>(mask) && is_aligned<kWords>(input);
  const int64_t groups = (n + kWords - 1) / kWords;
  for (int64_t i = grid_thread(); i < groups; i += grid_threads()) {
    const Words words = philox(seed, offset + static_cast<uint64_t>(i));
    const int64_t begin = i * kWords;
    if (aligned && begin + kWords <= n) {
      const Group<T, kWords> x = reinterpret_cast<const Group<T, kWords>*>(input)[i];
      Group<T, kWords> y;
      Group<uint8_t, kWords> kept;
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        kept.values[k] = words.values[k] < threshold ? 1 : 0;
        y.values[k] = narrow<T>(widen(x.values[k]) * (kept.values[k] != 0 ? factor : A{0}));
      }
      reinterpret_cast<Group<T, kWords>*>(output)[i] = y;
      reinterpret_cast<Group<uint8_t, kWords>*>(mask)[i] = kept;
    } else {
      for (int k = 0; k < kWords && begin + k < n; ++k) {
        const bool is_kept = words.values[k] < threshold;
        mask[begin + k] = is_kept ? 1 : 0;
        output[begin + k] = narrow<T>(widen(input[begin + k]) * (is_kept ? factor : A{0}));
      }
    }
  }
}

template <typename A>
struct Masked {
  A factor;
  __device__ A operator()(A grad, uint8_t kept) const {
    return grad * (static_cast<A>(kept) * factor);
  }
};

}  // namespace

template <typename T>
void dropout_forward(T* output, uint8_t* mask, const T* input, int64_t n, double keep,
                     uint64_t seed, uint64_t offset, Stream stream) {
  if (n == 0) return;
  const auto threshold = static_cast<uint64_t>(keep * 0x1p32);
  launch(forward_kernel<T>, blocks_for(n, kWords), kThreads, 0, stream, output, mask, input, n,
         threshold, kept_factor<T>(keep), seed, offset);
}

template <typename T>
void dropout_backward(T* grad_input, const T* grad_output, const uint8_t* mask, int64_t n,
                      double keep, bool accumulate, Stream stream) {
  elementwise(grad_input, n, accumulate, stream, Masked<accumulate_t<T>>{kept_factor<T>(keep)},
              grad_output, mask);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                 \
  template void dropout_forward<T>(T*, uint8_t*, const T*, int64_t, double, uint64_t, uint64_t, \
                                   Stream);                                                     \
  template void dropout_backward<T>(T*, const T*, const uint8_t*, int64_t, double, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
