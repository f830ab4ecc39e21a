// The loop of all elementwise kernels: a formula over the elements of a whole array, one launch.
// Formulas are structs, since a kernel's template argument must have a name.
#pragma once

#include "kernels/device.cuh"
#include "kernels/stream.h"

namespace lockstep::kernels::cuda {

template <typename F, typename T, typename... In>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(T* output, int64_t n, bool accumulate, F formula, const In*... inputs) {
  const auto indexed = [&](int64_t, auto... values) { return formula(values...); };
  map_or_add(output, n, grid_thread(), grid_threads(), accumulate, indexed, inputs...);
}

/// output[i] (+)= formula(inputs[i]...)
template <typename F, typename T, typename... In>
void elementwise(T* output, int64_t n, bool accumulate, Stream stream, F formula,
                 const In*... inputs) {
  if (n == 0) return;
  launch(elementwise_kernel<F, T, In...>, blocks_for(n, kGroupWidth<T>), kThreads, 0, stream,
         output, n, accumulate, formula, inputs...);
}

}  // namespace lockstep::kernels::cuda
