// The arithmetic of SGD for one parameter. See Note [Two paths of one optimizer].
#pragma once

#include "core/base/dtype.h"
#include "kernels/multiply_add.h"
#include "kernels/sgd.h"

namespace lockstep::kernels::cpu {

/// Policy::multiply_add(a, b, c) is a * b + c, fused or not.
template <typename Policy, typename T>
void sgd_step(const SgdParameter<T>& item, const SgdScalars& scalars) {
  using A = accumulate_t<T>;
  const A sign = scalars.maximize ? A{-1} : A{1};
  const A weight_decay = static_cast<A>(scalars.weight_decay);
  const A momentum = static_cast<A>(scalars.momentum);
  const A gain = static_cast<A>(1.0 - scalars.dampening);
  const A step = static_cast<A>(-scalars.lr);

  A g[kOptimizerChunk];
  for (int64_t begin = 0; begin < item.n; begin += kOptimizerChunk) {
    const int64_t count = item.n - begin < kOptimizerChunk ? item.n - begin : kOptimizerChunk;
    T* __restrict p = item.parameter + begin;
    const T* __restrict grad = item.grad + begin;
    for (int64_t i = 0; i < count; ++i) g[i] = sign * static_cast<A>(grad[i]);
    if (scalars.weight_decay != 0.0) {
      for (int64_t i = 0; i < count; ++i) {
        g[i] = Policy::multiply_add(static_cast<A>(p[i]), weight_decay, g[i]);
      }
    }
    if (item.momentum_buffer != nullptr) {
      T* __restrict buffer = item.momentum_buffer + begin;
      if (item.first) {
        for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<T>(g[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) {
          const A kept = momentum * static_cast<A>(buffer[i]);
          buffer[i] = static_cast<T>(Policy::multiply_add(g[i], gain, kept));
        }
      }
      if (scalars.nesterov) {
        for (int64_t i = 0; i < count; ++i) {
          g[i] = Policy::multiply_add(static_cast<A>(buffer[i]), momentum, g[i]);
        }
      } else {
        for (int64_t i = 0; i < count; ++i) g[i] = static_cast<A>(buffer[i]);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      p[i] = static_cast<T>(Policy::multiply_add(g[i], step, static_cast<A>(p[i])));
    }
  }
}

}  // namespace lockstep::kernels::cpu
