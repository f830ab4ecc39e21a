// The arithmetic of AdamW for one parameter. See Note [Two paths of one optimizer].
#pragma once

#include "core/base/dtype.h"
#include "kernels/adamw.h"
#include "kernels/multiply_add.h"

namespace lockstep::kernels::cpu {

/// u and v become max(u, v), NaN if either is. (Policy makes it a function of its file.)
template <typename Policy, typename T, typename A>
void adamw_maximum(T* __restrict u, A* __restrict v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const A old = static_cast<A>(u[i]);
    v[i] = old > v[i] || old != old ? old : v[i];
    u[i] = static_cast<T>(v[i]);
  }
}

/// Policy::multiply_add(a, b, c) is a * b + c, fused or not; Policy::square_root takes n roots in
/// place.
template <typename Policy, typename T>
void adamw_step(const AdamWParameter<T>& item, const AdamWFactors& factors) {
  using A = accumulate_t<T>;
  const A sign = factors.maximize ? A{-1} : A{1};
  const A decay = static_cast<A>(factors.decay);
  const A weight = static_cast<A>(factors.grad_weight);
  // An interpolation starts from the nearer end, so that lerp(a, b, 1) is b.
  const bool from_average = weight < A{0.5};
  const A weight_from_end = from_average ? weight : weight - A{1};
  const A beta2 = static_cast<A>(factors.beta2);
  const A square_weight = static_cast<A>(factors.square_weight);
  const A root_correction = static_cast<A>(factors.root_correction);
  const A eps = static_cast<A>(factors.eps);
  const A step_size = static_cast<A>(factors.step_size);

  A g[kOptimizerChunk];
  A root[kOptimizerChunk];
  for (int64_t begin = 0; begin < item.n; begin += kOptimizerChunk) {
    const int64_t count = item.n - begin < kOptimizerChunk ? item.n - begin : kOptimizerChunk;
    T* __restrict p = item.parameter + begin;
    T* __restrict m = item.exp_avg + begin;
    T* __restrict v = item.exp_avg_sq + begin;
    const T* __restrict grad = item.grad + begin;
    for (int64_t i = 0; i < count; ++i) g[i] = sign * static_cast<A>(grad[i]);
    for (int64_t i = 0; i < count; ++i) {
      const A average = static_cast<A>(m[i]);
      const A end = from_average ? average : g[i];
      m[i] = static_cast<T>(Policy::multiply_add(weight_from_end, g[i] - average, end));
    }
    for (int64_t i = 0; i < count; ++i) {
      const A kept = beta2 * static_cast<A>(v[i]);
      v[i] = static_cast<T>(Policy::multiply_add(square_weight * g[i], g[i], kept));
      root[i] = static_cast<A>(v[i]);
    }
    if (item.max_exp_avg_sq != nullptr) {
      adamw_maximum<Policy>(item.max_exp_avg_sq + begin, static_cast<A*>(root), count);
    }
    Policy::square_root(static_cast<A*>(root), count);
    for (int64_t i = 0; i < count; ++i) {
      const A denominator = root[i] / root_correction + eps;
      p[i] = static_cast<T>(static_cast<A>(p[i]) * decay +
                            step_size * static_cast<A>(m[i]) / denominator);
    }
  }
}

}  // namespace lockstep::kernels::cpu
