// Conversions between element types on the device: one kernel for each pair of types.
#include <limits>
#include <type_traits>

#include "kernels/cast.h"
#include "kernels/device.cuh"

namespace lockstep::kernels::cuda {
namespace {

template <typename T>
inline constexpr bool kReduced = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Functions of the standard library are host code, constants made of them are not.
template <typename T>
inline constexpr T kLowest = std::numeric_limits<T>::min();
template <typename T>
inline constexpr T kHighest = std::numeric_limits<T>::max();

/// Truncated and clamped, NaN to 0, as on the CPU.
template <typename To, typename From>
__device__ To integer_from(From value) {
  if (!(value > static_cast<From>(kLowest<To>))) {
    return value <= static_cast<From>(kLowest<To>) ? kLowest<To> : To{0};
  }
  return value < static_cast<From>(kHighest<To>) ? static_cast<To>(value) : kHighest<To>;
}

template <typename To, typename From>
__device__ __forceinline__ To convert_one(From value) {
  if constexpr (kReduced<From>) {
    return convert_one<To>(widen(value));
  } else if constexpr (kReduced<To>) {
    return narrow<To>(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return integer_from<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From, int W>
__device__ Group<To, W> convert_group(Group<From, W> values) {
  Group<To, W> result;
#pragma unroll
  for (int k = 0; k < W; ++k) result.values[k] = convert_one<To>(values.values[k]);
  return result;
}

template <typename To, typename From>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(To* destination, const From* source, int64_t n) {
  constexpr int W = kGroupWidth<To, From>;
  const int64_t stride = grid_threads();
  int64_t done = 0;
  if (is_aligned<W>(destination) && is_aligned<W>(source)) {
    const int64_t groups = n / W;
    for (int64_t i = grid_thread(); i < groups; i += stride) {
      reinterpret_cast<Group<To, W>*>(destination)[i] =
          convert_group<To>(reinterpret_cast<const Group<From, W>*>(source)[i]);
    }
    done = groups * W;
  }
  for (int64_t i = done + grid_thread(); i < n; i += stride) {
    destination[i] = convert_one<To>(source[i]);
  }
}

template <typename To, typename From>
void convert_n(To* destination, const From* source, int64_t n, Stream stream) {
  if constexpr (std::is_same_v<To, From>) {
    LOCKSTEP_CUDA_CHECK(cudaMemcpyAsync(destination, source, static_cast<size_t>(n) * sizeof(To),
                                        cudaMemcpyDeviceToDevice, stream));
  } else {
    launch(convert_kernel<To, From>, blocks_for(n, kGroupWidth<To, From>), kThreads, 0, stream,
           destination, source, n);
  }
}

}  // namespace

void convert(void* destination, DType destination_dtype, const void* source, DType source_dtype,
             int64_t n, Stream stream) {
  if (n == 0) return;
  dispatch_all(source_dtype, [&](auto from) {
    dispatch_all(destination_dtype, [&](auto to) {
      convert_n(static_cast<decltype(to)*>(destination), static_cast<const decltype(from)*>(source),
                n, stream);
    });
  });
}

}  // namespace lockstep::kernels::cuda
