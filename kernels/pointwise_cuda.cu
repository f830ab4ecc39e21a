// Fill, add and multiply on the device.
#include <cstring>

#include "kernels/cast.h"
#include "kernels/elementwise.cuh"
#include "kernels/pointwise.h"

namespace lockstep::kernels::cuda {
namespace {

/// Fills with the bits of a value, whatever its type.
template <typename Bits>
__global__ void __launch_bounds__(kThreads) fill_kernel(Bits* destination, int64_t n, Bits value) {
  constexpr int W = kGroupWidth<Bits>;
  Group<Bits, W> group;
#pragma unroll
  for (int k = 0; k < W; ++k) group.values[k] = value;
  int64_t done = 0;
  if (is_aligned<W>(destination)) {
    const int64_t groups = n / W;
    for (int64_t i = grid_thread(); i < groups; i += grid_threads()) {
      reinterpret_cast<Group<Bits, W>*>(destination)[i] = group;
    }
    done = groups * W;
  }
  for (int64_t i = done + grid_thread(); i < n; i += grid_threads()) destination[i] = value;
}

template <typename Bits>
void fill_bits(void* destination, const void* value, int64_t n, Stream stream) {
  Bits bits;
  std::memcpy(&bits, value, sizeof(Bits));
  launch(fill_kernel<Bits>, blocks_for(n, kGroupWidth<Bits>), kThreads, 0, stream,
         static_cast<Bits*>(destination), n, bits);
}

template <typename A>
struct Constant {
  A value;
  __device__ A operator()() const { return value; }
};
struct Add {
  template <typename A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};
template <typename A>
struct Multiply {
  A factor;
  __device__ A operator()(A x) const { return x * factor; }
};

}  // namespace

void fill(void* destination, DType dtype, double value, int64_t n, Stream stream) {
  if (n == 0) return;
  alignas(8) unsigned char converted[8];
  cpu::convert(converted, dtype, &value, DType::Float64, 1);
  switch (element_size(dtype)) {
    case 1:
      return fill_bits<uint8_t>(destination, converted, n, stream);
    case 2:
      return fill_bits<uint16_t>(destination, converted, n, stream);
    case 4:
      return fill_bits<uint32_t>(destination, converted, n, stream);
    default:
      return fill_bits<uint64_t>(destination, converted, n, stream);
  }
}

template <typename T>
void fill_or_add(T* destination, int64_t n, double value, bool accumulate, Stream stream) {
  using A = accumulate_t<T>;
  elementwise(destination, n, accumulate, stream, Constant<A>{static_cast<A>(value)});
}

template <typename T>
void add(T* output, const T* a, const T* b, int64_t n, Stream stream) {
  elementwise(output, n, false, stream, Add{}, a, b);
}

template <typename T>
void mul(T* output, const T* input, int64_t n, double factor, bool accumulate, Stream stream) {
  using A = accumulate_t<T>;
  elementwise(output, n, accumulate, stream, Multiply<A>{static_cast<A>(factor)}, input);
}

#define LOCKSTEP_INSTANTIATE(T)                                    \
  template void fill_or_add<T>(T*, int64_t, double, bool, Stream); \
  template void add<T>(T*, const T*, const T*, int64_t, Stream);   \
  template void mul<T>(T*, const T*, int64_t, double, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
