// The linear layer on the CPU.
#include "kernels/linear.h"

#include <type_traits>

#include "core/base/dtype.h"
#include "kernels/allocator.h"
#include "kernels/cast.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"

namespace lockstep::kernels::cpu {
namespace {

/// fp32 memory for one call, from the thread's cache.
class FloatBuffer {
 public:
  explicit FloatBuffer(int64_t n)
      : nbytes_(n * static_cast<int64_t>(sizeof(float))),
        data_(static_cast<float*>(cpu_allocate(nbytes_))) {}
  ~FloatBuffer() { cpu_deallocate(data_, nbytes_); }
  FloatBuffer(const FloatBuffer&) = delete;
  FloatBuffer& operator=(const FloatBuffer&) = delete;

  float* data() const { return data_; }

 private:
  int64_t nbytes_;
  float* data_;
};

/// What the BLAS reads: the elements themselves, or an fp32 copy of 16-bit ones.
template <typename T>
class Operand {
 public:
  Operand(const T* source, int64_t) : data_(source) {}
  const T* data() const { return data_; }

 private:
  const T* data_;
};

template <typename T>
requires(!std::is_same_v<T, accumulate_t<T>>) class Operand<T> {
 public:
  Operand(const T* source, int64_t n) : buffer_(n) { to_float(buffer_.data(), source, n); }
  const float* data() const { return buffer_.data(); }

 private:
  FloatBuffer buffer_;
};

/// matrix [n, out] = epilogue(matrix + bias), in one pass.
template <typename A, typename Activation>
void add_bias(A* matrix, const A* __restrict bias, int64_t n, int64_t out,
              Activation&& activation) {
  for (int64_t r = 0; r < n; ++r) {
    A* __restrict row = matrix + r * out;
    for (int64_t c = 0; c < out; ++c) row[c] = activation(row[c] + bias[c]);
  }
}

template <typename A>
void apply_epilogue(A* matrix, const A* bias, int64_t n, int64_t out, Epilogue epilogue) {
  const auto relu = [](A x) { return A{0} > x ? A{0} : x; };
  const auto identity = [](A x) { return x; };
  if (bias == nullptr) {
    if (epilogue == Epilogue::Relu) {
      elementwise(matrix, n * out, false, relu, static_cast<const A*>(matrix));
    }
  } else if (epilogue == Epilogue::Relu) {
    add_bias(matrix, bias, n, out, relu);
  } else {
    add_bias(matrix, bias, n, out, identity);
  }
}

/// destination [m, n] (+)= a [m, k] * b [k, n], rounded once for 16-bit destinations.
template <typename T>
void product(T* destination, const GemmOperand<accumulate_t<T>>& a,
             const GemmOperand<accumulate_t<T>>& b, int64_t m, int64_t n, int64_t k,
             bool accumulate) {
  using A = accumulate_t<T>;
  if constexpr (std::is_same_v<T, A>) {
    gemm<A>(destination, n, a, b, m, n, k, A{1}, accumulate ? A{1} : A{0});
  } else {
    const FloatBuffer result(m * n);
    if (accumulate) to_float(result.data(), destination, m * n);
    gemm<A>(result.data(), n, a, b, m, n, k, A{1}, accumulate ? A{1} : A{0});
    from_float(destination, result.data(), m * n);
  }
}

}  // namespace

template <typename T>
void linear_forward(T* output, const T* input, const T* weight, const T* bias, int64_t n,
                    int64_t in, int64_t out, Epilogue epilogue) {
  using A = accumulate_t<T>;
  const Operand<T> x(input, n * in);
  const Operand<T> w(weight, out * in);
  const GemmOperand<A> a{x.data(), in};
  const GemmOperand<A> b{w.data(), in, /*transposed=*/true};
  if constexpr (std::is_same_v<T, A>) {
    gemm<A>(output, out, a, b, n, out, in, A{1}, A{0});
    apply_epilogue(output, bias, n, out, epilogue);
  } else {
    const FloatBuffer result(n * out);
    const Operand<T> addend(bias, bias == nullptr ? 0 : out);
    gemm<A>(result.data(), out, a, b, n, out, in, A{1}, A{0});
    apply_epilogue(result.data(), bias == nullptr ? nullptr : addend.data(), n, out, epilogue);
    from_float(output, result.data(), n * out);
  }
}

template <typename T>
void linear_backward_bias(T* grad_bias, const T* grad_output, int64_t n, int64_t out,
                          bool accumulate) {
  column_sum(grad_bias, grad_output, n, out, accumulate);
}

template <typename T>
void linear_backward_weight(T* grad_weight, const T* grad_output, const T* input, int64_t n,
                            int64_t in, int64_t out, bool accumulate) {
  using A = accumulate_t<T>;
  const Operand<T> g(grad_output, n * out);
  const Operand<T> x(input, n * in);
  product(grad_weight, GemmOperand<A>{g.data(), out, /*transposed=*/true},
          GemmOperand<A>{x.data(), in}, out, in, n, accumulate);
}

template <typename T>
void linear_backward_input(T* grad_input, const T* grad_output, const T* weight, int64_t n,
                           int64_t in, int64_t out, bool accumulate) {
  using A = accumulate_t<T>;
  const Operand<T> g(grad_output, n * out);
  const Operand<T> w(weight, out * in);
  product(grad_input, GemmOperand<A>{g.data(), out}, GemmOperand<A>{w.data(), in}, n, in, out,
          accumulate);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                \
  template void linear_forward<T>(T*, const T*, const T*, const T*, int64_t, int64_t, int64_t, \
                                  Epilogue);                                                   \
  template void linear_backward_bias<T>(T*, const T*, int64_t, int64_t, bool);                 \
  template void linear_backward_weight<T>(T*, const T*, const T*, int64_t, int64_t, int64_t,   \
                                          bool);                                               \
  template void linear_backward_input<T>(T*, const T*, const T*, int64_t, int64_t, int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
