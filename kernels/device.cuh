// What every kernel needs: our 16-bit types in device code, and loops over elements that use
// 16-byte accesses where the pointers allow it. A formula gets fp32 (fp64) values, whatever is
// stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/launch.cuh"

namespace lockstep::kernels::cuda {

inline constexpr int kThreads = 256;
/// Enough blocks to fill a large GPU several times over. A constant, so that the order of sums does
/// not depend on the device.
inline constexpr int64_t kMaxBlocks = 1024;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ float widen(Half x) {
  __half_raw raw;
  raw.x = x.bits;
  return __half2float(__half(raw));
}
__device__ __forceinline__ float widen(BFloat16 x) {
  __nv_bfloat16_raw raw;
  raw.x = x.bits;
  return __bfloat162float(__nv_bfloat16(raw));
}
__device__ __forceinline__ unsigned char widen(unsigned char x) { return x; }
__device__ __forceinline__ int64_t widen(int64_t x) { return x; }

template <typename T>
struct Narrow {
  static __device__ __forceinline__ T from(T x) { return x; }
};
template <>
struct Narrow<Half> {
  static __device__ __forceinline__ Half from(float x) {
    Half result;
    result.bits = static_cast<__half_raw>(__float2half_rn(x)).x;
    return result;
  }
};
template <>
struct Narrow<BFloat16> {
  static __device__ __forceinline__ BFloat16 from(float x) {
    BFloat16 result;
    result.bits = static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x;
    return result;
  }
};

/// x rounded to nearest even to the type that is stored.
template <typename T>
__device__ __forceinline__ T narrow(accumulate_t<T> x) {
  return Narrow<T>::from(x);
}

constexpr int smaller(int a, int b) { return a < b ? a : b; }

/// Elements that a thread takes at a time: 16 bytes of the narrowest type, 8 elements at most.
template <typename... Ts>
inline constexpr int kGroupWidth = smaller(8, 16 / std::min({static_cast<int>(sizeof(Ts))...}));

/// W neighbours, loaded and stored by accesses of up to 16 bytes.
template <typename T, int W>
struct alignas(smaller(16, W* static_cast<int>(sizeof(T)))) Group {
  T values[W];
};

template <int W, typename T>
__device__ bool is_aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % alignof(Group<T, W>) == 0;
}

template <typename Out, int W, typename F, typename... In>
__device__ Group<Out, W> map_group(int64_t begin, F& formula, Group<In, W>... inputs) {
  Group<Out, W> result;
#pragma unroll
  for (int k = 0; k < W; ++k) {
    result.values[k] = narrow<Out>(formula(begin + k, widen(inputs.values[k])...));
  }
  return result;
}

/// output[i] = formula(i, inputs[i]...) for this thread's share of 0 <= i < n: `first` is its
/// number, `stride` how many threads share the work. The output may be one of the inputs.
template <typename Out, typename F, typename... In>
__device__ void map(Out* output, int64_t n, int64_t first, int64_t stride, F formula,
                    const In*... inputs) {
  constexpr int W = kGroupWidth<Out, In...>;
  int64_t done = 0;
  if (is_aligned<W>(output) && (is_aligned<W>(inputs) && ...)) {
    const int64_t groups = n / W;
    for (int64_t i = first; i < groups; i += stride) {
      reinterpret_cast<Group<Out, W>*>(output)[i] =
          map_group<Out, W>(i * W, formula, reinterpret_cast<const Group<In, W>*>(inputs)[i]...);
    }
    done = groups * W;
  }
  for (int64_t i = done + first; i < n; i += stride) {
    output[i] = narrow<Out>(formula(i, widen(inputs[i])...));
  }
}

/// The same with `accumulate`: whether the result is added to what is there.
template <typename Out, typename F, typename... In>
__device__ void map_or_add(Out* output, int64_t n, int64_t first, int64_t stride, bool accumulate,
                           F formula, const In*... inputs) {
  if (accumulate) {
    const auto adding = [&](int64_t i, auto old, auto... values) {
      return old + formula(i, values...);
    };
    map(output, n, first, stride, adding, static_cast<const Out*>(output), inputs...);
  } else {
    map(output, n, first, stride, formula, inputs...);
  }
}

template <int W, typename F, typename... In>
__device__ void visit_group(int64_t begin, F& visitor, Group<In, W>... inputs) {
#pragma unroll
  for (int k = 0; k < W; ++k) visitor(begin + k, widen(inputs.values[k])...);
}

/// visitor(i, inputs[i]...) for this thread's share.
template <typename F, typename... In>
__device__ void visit(int64_t n, int64_t first, int64_t stride, F visitor, const In*... inputs) {
  constexpr int W = kGroupWidth<In...>;
  int64_t done = 0;
  if ((is_aligned<W>(inputs) && ...)) {
    const int64_t groups = n / W;
    for (int64_t i = first; i < groups; i += stride) {
      visit_group<W>(i * W, visitor, reinterpret_cast<const Group<In, W>*>(inputs)[i]...);
    }
    done = groups * W;
  }
  for (int64_t i = done + first; i < n; i += stride) visitor(i, widen(inputs[i])...);
}

__device__ inline int64_t grid_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t grid_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Blocks for n elements, `each` of them a thread before the grid wraps around.
inline unsigned blocks_for(int64_t n, int64_t each) {
  const int64_t per_block = kThreads * each;
  return static_cast<unsigned>(std::clamp<int64_t>((n + per_block - 1) / per_block, 1, kMaxBlocks));
}

}  // namespace lockstep::kernels::cuda
