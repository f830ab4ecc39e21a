// Layer normalisation on the CPU. The variance is summed around the mean, in double: a large offset
// of the input costs no accuracy. Column sums go block by block, so that they need no scratch.
#include "kernels/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/lane_sum.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kColumnBlock = 64;

/// sums[c] (+)= sum over rows of term(r, c), added in the order of the rows.
template <typename T, typename Term>
void column_sums(T* sums, int64_t rows, int64_t n, bool accumulate, Term&& term) {
  using A = accumulate_t<T>;
  for (int64_t begin = 0; begin < n; begin += kColumnBlock) {
    const int64_t count = std::min(kColumnBlock, n - begin);
    A block[kColumnBlock] = {};
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < count; ++c) block[c] += term(r, begin + c);
    }
    for (int64_t c = 0; c < count; ++c) {
      T& sum = sums[begin + c];
      sum = static_cast<T>(accumulate ? static_cast<A>(sum) + block[c] : block[c]);
    }
  }
}

}  // namespace

template <typename T>
void layer_norm_forward(T* output, accumulate_t<T>* mean, accumulate_t<T>* rstd, const T* input,
                        const T* weight, const T* bias, int64_t rows, int64_t n, double eps) {
  using A = accumulate_t<T>;
  for (int64_t r = 0; r < rows; ++r, input += n, output += n) {
    const double center =
        lane_sum(n, [&](int64_t c) { return static_cast<A>(input[c]); }) / static_cast<double>(n);
    const double variance = lane_sum(n,
                                     [&](int64_t c) {
                                       const double d =
                                           static_cast<double>(static_cast<A>(input[c])) - center;
                                       return d * d;
                                     }) /
                            static_cast<double>(n);
    const A row_mean = static_cast<A>(center);
    const A row_rstd = static_cast<A>(1.0 / std::sqrt(variance + eps));
    mean[r] = row_mean;
    rstd[r] = row_rstd;
    for (int64_t c = 0; c < n; ++c) {
      const A x = (static_cast<A>(input[c]) - row_mean) * row_rstd;
      output[c] = static_cast<T>(x * static_cast<A>(weight[c]) + static_cast<A>(bias[c]));
    }
  }
}

template <typename T>
void layer_norm_backward_bias(T* grad_bias, const T* grad_output, int64_t rows, int64_t n,
                              bool accumulate) {
  using A = accumulate_t<T>;
  column_sums(grad_bias, rows, n, accumulate,
              [&](int64_t r, int64_t c) { return static_cast<A>(grad_output[r * n + c]); });
}

template <typename T>
void layer_norm_backward_weight(T* grad_weight, const T* grad_output, const T* input,
                                const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                                int64_t rows, int64_t n, bool accumulate) {
  using A = accumulate_t<T>;
  column_sums(grad_weight, rows, n, accumulate, [&](int64_t r, int64_t c) {
    const A x = (static_cast<A>(input[r * n + c]) - mean[r]) * rstd[r];
    return static_cast<A>(grad_output[r * n + c]) * x;
  });
}

template <typename T>
void layer_norm_backward_input(T* grad_input, const T* grad_output, const T* input, const T* weight,
                               const accumulate_t<T>* mean, const accumulate_t<T>* rstd,
                               int64_t rows, int64_t n, bool accumulate) {
  using A = accumulate_t<T>;
  for (int64_t r = 0; r < rows; ++r, grad_input += n, grad_output += n, input += n) {
    const A row_mean = mean[r];
    const A row_rstd = rstd[r];
    const auto g = [&](int64_t c) {
      return static_cast<A>(grad_output[c]) * static_cast<A>(weight[c]);
    };
    const auto x = [&](int64_t c) { return (static_cast<A>(input[c]) - row_mean) * row_rstd; };
    const double size = static_cast<double>(n);
    const A mean_g = static_cast<A>(lane_sum(n, g) / size);
    const A mean_gx = static_cast<A>(lane_sum(n, [&](int64_t c) { return g(c) * x(c); }) / size);
    for (int64_t c = 0; c < n; ++c) {
      const A value = row_rstd * (g(c) - mean_g - x(c) * mean_gx);
      grad_input[c] = static_cast<T>(accumulate ? static_cast<A>(grad_input[c]) + value : value);
    }
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                                   \
  template void layer_norm_forward<T>(T*, accumulate_t<T>*, accumulate_t<T>*, const T*, const T*, \
                                      const T*, int64_t, int64_t, double);                        \
  template void layer_norm_backward_bias<T>(T*, const T*, int64_t, int64_t, bool);                \
  template void layer_norm_backward_weight<T>(T*, const T*, const T*, const accumulate_t<T>*,     \
                                              const accumulate_t<T>*, int64_t, int64_t, bool);    \
  template void layer_norm_backward_input<T>(T*, const T*, const T*, const T*,                    \
                                             const accumulate_t<T>*, const accumulate_t<T>*,      \
                                             int64_t, int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
