// AdamW on the device: the arithmetic of adamw_step.h, unfused, for one element at a time.
#include <cmath>

#include "kernels/adamw.h"
#include "kernels/multi_tensor.cuh"

namespace lockstep::kernels::cuda {
namespace {

/// What differs between parameters that were first updated at different times.
template <typename A>
struct Correction {
  A root;  ///< sqrt(1 - beta2^step)
  A step;  ///< -lr / (1 - beta1^step)
};

template <typename T>
using Item = MultiTensorItem<T, 3, Correction<accumulate_t<T>>>;

template <typename T>
struct AdamWStep {
  using A = accumulate_t<T>;
  A sign, decay, weight, beta2, square_weight, eps;

  static __device__ A stored(A x) { return widen(narrow<T>(x)); }

  __device__ bool reads_state(const Item<T>&) const { return true; }

  __device__ A operator()(A p, A grad, A (&state)[3], const Item<T>& item) const {
    A& m = state[0];
    A& v = state[1];
    A& largest = state[2];
    const A g = sign * grad;
    // From the nearer end, so that a weight of 1 gives g itself.
    m = stored(weight < A{0.5} ? weight * (g - m) + m : (weight - A{1}) * (g - m) + g);
    v = stored(square_weight * g * g + beta2 * v);
    A used = v;
    if (item.state[2] != nullptr) {
      used = largest > v || largest != largest ? largest : v;
      largest = used;
    }
    const A denominator = sqrt(used) / item.extra.root + eps;
    return p * decay + item.extra.step * m / denominator;
  }
};

}  // namespace

template <typename T>
void adamw(std::span<const cpu::AdamWParameter<T>> parameters, const cpu::AdamWScalars& scalars,
           Stream stream) {
  using A = accumulate_t<T>;
  const AdamWStep<T> step{
      scalars.maximize ? A{-1} : A{1},     static_cast<A>(1.0 - scalars.lr * scalars.weight_decay),
      static_cast<A>(1.0 - scalars.beta1), static_cast<A>(scalars.beta2),
      static_cast<A>(1.0 - scalars.beta2), static_cast<A>(scalars.eps)};
  const auto make_item = [&](const cpu::AdamWParameter<T>& source) {
    const double t = static_cast<double>(source.step);
    const Correction<A> correction{
        static_cast<A>(std::sqrt(1.0 - std::pow(scalars.beta2, t))),
        static_cast<A>(-(scalars.lr / (1.0 - std::pow(scalars.beta1, t))))};
    return Item<T>{source.parameter,
                   source.grad,
                   {source.exp_avg, source.exp_avg_sq, source.max_exp_avg_sq},
                   source.n,
                   correction};
  };
  multi_tensor<T>(parameters, make_item, step, stream);
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void adamw<T>(std::span<const cpu::AdamWParameter<T>>, const cpu::AdamWScalars&, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
