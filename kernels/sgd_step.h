// The arithmetic of SGD for one parameter: one pass over its memory, which is what limits it. See
// Note [Two paths of one optimizer].
#pragma once

#include "core/base/dtype.h"
#include "kernels/multiply_add.h"
#include "kernels/sgd.h"

namespace lockstep::kernels::cpu {

/// What becomes of the momentum buffer: there is none, it gets its first value, it is updated.
enum class MomentumUse : uint8_t { None, First, Update };

/// The scalars in the type that is computed in.
template <typename A>
struct SgdFactors {
  explicit SgdFactors(const SgdScalars& scalars)
      : sign(scalars.maximize ? A{-1} : A{1}),
        weight_decay(static_cast<A>(scalars.weight_decay)),
        momentum(static_cast<A>(scalars.momentum)),
        gain(static_cast<A>(1.0 - scalars.dampening)),
        step(static_cast<A>(-scalars.lr)) {}
  A sign, weight_decay, momentum, gain, step;
};

/// Policy::multiply_add(a, b, c) is a * b + c, fused or not. What is asked for is known at compile
/// time, so that the loop has no branch and is vectorised.
template <typename Policy, MomentumUse kMomentum, bool kDecay, bool kNesterov, typename T>
void sgd_loop(const SgdParameter<T>& item, SgdFactors<accumulate_t<T>> factors) {
  using A = accumulate_t<T>;
  T* __restrict parameter = item.parameter;
  T* __restrict buffer = item.momentum_buffer;
  const T* __restrict grad = item.grad;
  for (int64_t i = 0; i < item.n; ++i) {
    const A p = static_cast<A>(parameter[i]);
    A g = factors.sign * static_cast<A>(grad[i]);
    if constexpr (kDecay) g = Policy::multiply_add(p, factors.weight_decay, g);
    if constexpr (kMomentum != MomentumUse::None) {
      A kept = g;
      if constexpr (kMomentum == MomentumUse::Update) {
        kept = Policy::multiply_add(g, factors.gain, factors.momentum * static_cast<A>(buffer[i]));
      }
      buffer[i] = static_cast<T>(kept);
      kept = static_cast<A>(buffer[i]);  // as rounded
      g = kNesterov ? Policy::multiply_add(kept, factors.momentum, g) : kept;
    }
    parameter[i] = static_cast<T>(Policy::multiply_add(g, factors.step, p));
  }
}

template <typename Policy, MomentumUse kMomentum, typename T>
void sgd_step_with(const SgdParameter<T>& item, const SgdScalars& scalars) {
  const SgdFactors<accumulate_t<T>> factors(scalars);
  if (scalars.weight_decay != 0.0) {
    if (scalars.nesterov) return sgd_loop<Policy, kMomentum, true, true>(item, factors);
    return sgd_loop<Policy, kMomentum, true, false>(item, factors);
  }
  if (scalars.nesterov) return sgd_loop<Policy, kMomentum, false, true>(item, factors);
  return sgd_loop<Policy, kMomentum, false, false>(item, factors);
}

template <typename Policy, typename T>
void sgd_step(const SgdParameter<T>& item, const SgdScalars& scalars) {
  if (item.momentum_buffer == nullptr) {
    sgd_step_with<Policy, MomentumUse::None>(item, scalars);
  } else if (item.first) {
    sgd_step_with<Policy, MomentumUse::First>(item, scalars);
  } else {
    sgd_step_with<Policy, MomentumUse::Update>(item, scalars);
  }
}

}  // namespace lockstep::kernels::cpu
