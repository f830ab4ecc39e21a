// Activations on the device.
#include "kernels/activation.h"
#include "kernels/elementwise.cuh"

namespace lockstep::kernels::cuda {
namespace {

struct Relu {
  template <typename A>
  __device__ A operator()(A x) const {
    return A{0} > x ? A{0} : x;  // NaN stays NaN
  }
};

struct ReluGradient {
  template <typename A>
  __device__ A operator()(A grad, A output) const {
    return output <= A{0} ? A{0} : grad;
  }
};

/// Phi(x), by the complement of the error function: accurate in the lower tail.
template <typename A>
__device__ A phi(A x) {
  constexpr A kInvSqrt2 = static_cast<A>(0.70710678118654752440);
  return A{0.5} * erfc(-x * kInvSqrt2);
}

struct Gelu {
  template <typename A>
  __device__ A operator()(A x) const {
    return x * phi(x);
  }
};

struct GeluGradient {
  template <typename A>
  __device__ A operator()(A grad, A x) const {
    constexpr A kInvSqrt2Pi = static_cast<A>(0.39894228040143267794);
    return grad * (phi(x) + x * (exp(A{-0.5} * x * x) * kInvSqrt2Pi));
  }
};

}  // namespace

template <typename T>
void relu_forward(T* output, const T* input, int64_t n, Stream stream) {
  elementwise(output, n, false, stream, Relu{}, input);
}

template <typename T>
void relu_backward(T* grad_input, const T* grad_output, const T* output, int64_t n, bool accumulate,
                   Stream stream) {
  elementwise(grad_input, n, accumulate, stream, ReluGradient{}, grad_output, output);
}

template <typename T>
void gelu_forward(T* output, const T* input, int64_t n, Stream stream) {
  elementwise(output, n, false, stream, Gelu{}, input);
}

template <typename T>
void gelu_backward(T* grad_input, const T* grad_output, const T* input, int64_t n, bool accumulate,
                   Stream stream) {
  elementwise(grad_input, n, accumulate, stream, GeluGradient{}, grad_output, input);
}

#define LOCKSTEP_INSTANTIATE(T)                                                  \
  template void relu_forward<T>(T*, const T*, int64_t, Stream);                  \
  template void relu_backward<T>(T*, const T*, const T*, int64_t, bool, Stream); \
  template void gelu_forward<T>(T*, const T*, int64_t, Stream);                  \
  template void gelu_backward<T>(T*, const T*, const T*, int64_t, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
