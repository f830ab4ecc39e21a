// Unscaling on the device. The flag is set by an exchange: many threads may find something.
#include "kernels/multi_tensor.cuh"
#include "kernels/unscale.h"

namespace lockstep::kernels::cuda {
namespace {

struct Nothing {};

template <typename T>
using Item = MultiTensorItem<T, 1, Nothing>;

template <typename T>
struct UnscaleStep {
  using A = accumulate_t<T>;
  float* found_inf;
  A factor;

  __device__ bool reads_state(const Item<T>&) const { return false; }

  __device__ A operator()(A, A grad, A (&)[1], const Item<T>&) const {
    // As it is stored: what is finite in fp32 may be infinite in fp16.
    const A value = widen(narrow<T>(grad * factor));
    if (!isfinite(value)) atomicExch(found_inf, 1.0f);
    return value;
  }
};

}  // namespace

template <typename T>
void unscale(float* found_inf, std::span<const UnscaleGrad<T>> grads, double factor,
             Stream stream) {
  const UnscaleStep<T> step{found_inf, static_cast<accumulate_t<T>>(factor)};
  const auto make_item = [](const UnscaleGrad<T>& source) {
    return Item<T>{source.grad, source.grad, {nullptr}, source.n, {}};
  };
  multi_tensor<T>(grads, make_item, step, stream);
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void unscale<T>(float*, std::span<const UnscaleGrad<T>>, double, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
