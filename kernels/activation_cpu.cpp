// Activations on the CPU.
#include "kernels/activation.h"

#include "kernels/elementwise.h"
#include "kernels/normal.h"

namespace lockstep::kernels::cpu {

template <typename T>
void relu_forward(T* output, const T* input, int64_t n) {
  using A = accumulate_t<T>;
  // This order of the comparison is the one of the max instruction, which lets NaN through.
  elementwise(
      output, n, false, [](A x) { return A{0} > x ? A{0} : x; }, input);
}

template <typename T>
void relu_backward(T* grad_input, const T* grad_output, const T* output, int64_t n,
                   bool accumulate) {
  using A = accumulate_t<T>;
  elementwise(
      grad_input, n, accumulate, [](A g, A y) { return y <= A{0} ? A{0} : g; }, grad_output,
      output);
}

template <typename T>
void gelu_forward(T* output, const T* input, int64_t n) {
  using A = accumulate_t<T>;
  elementwise(
      output, n, false, [](A x) { return x * normal(x).phi; }, input);
}

template <typename T>
void gelu_backward(T* grad_input, const T* grad_output, const T* input, int64_t n,
                   bool accumulate) {
  using A = accumulate_t<T>;
  elementwise(
      grad_input, n, accumulate,
      [](A g, A x) {
        constexpr A kInvSqrt2Pi = static_cast<A>(0.39894228040143267794);
        const Normal<A> at = normal(x);
        return g * (at.phi + x * (at.exponential * kInvSqrt2Pi));
      },
      grad_output, input);
}

#define LOCKSTEP_INSTANTIATE(T)                                          \
  template void relu_forward<T>(T*, const T*, int64_t);                  \
  template void relu_backward<T>(T*, const T*, const T*, int64_t, bool); \
  template void gelu_forward<T>(T*, const T*, int64_t);                  \
  template void gelu_backward<T>(T*, const T*, const T*, int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
