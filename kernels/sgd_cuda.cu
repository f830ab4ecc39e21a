// SGD on the device: the arithmetic of sgd_step.h, unfused, for one element at a time.
#include "kernels/multi_tensor.cuh"
#include "kernels/sgd.h"

namespace lockstep::kernels::cuda {
namespace {

template <typename T>
using Item = MultiTensorItem<T, 1, bool>;  // extra: the momentum buffer is unset

template <typename T>
struct SgdStep {
  using A = accumulate_t<T>;
  A sign, weight_decay, momentum, gain, step;
  bool nesterov;

  __device__ bool reads_state(const Item<T>& item) const { return !item.extra; }

  __device__ A operator()(A p, A grad, A (&buffer)[1], const Item<T>& item) const {
    A g = sign * grad;
    if (weight_decay != A{0}) g = p * weight_decay + g;
    if (item.state[0] != nullptr) {
      buffer[0] = item.extra ? g : g * gain + momentum * buffer[0];
      buffer[0] = widen(narrow<T>(buffer[0]));  // what is stored is what is used
      g = nesterov ? buffer[0] * momentum + g : buffer[0];
    }
    return g * step + p;
  }
};

}  // namespace

template <typename T>
void sgd(std::span<const cpu::SgdParameter<T>> parameters, const cpu::SgdScalars& scalars,
         Stream stream) {
  using A = accumulate_t<T>;
  const SgdStep<T> step{scalars.maximize ? A{-1} : A{1},  static_cast<A>(scalars.weight_decay),
                        static_cast<A>(scalars.momentum), static_cast<A>(1.0 - scalars.dampening),
                        static_cast<A>(-scalars.lr),      scalars.nesterov};
  const auto make_item = [](const cpu::SgdParameter<T>& source) {
    return Item<T>{source.parameter, source.grad, {source.momentum_buffer}, source.n, source.first};
  };
  multi_tensor<T>(parameters, make_item, step, stream);
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void sgd<T>(std::span<const cpu::SgdParameter<T>>, const cpu::SgdScalars&, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
