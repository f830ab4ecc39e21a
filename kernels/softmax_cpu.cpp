// softmax and log_softmax on the CPU. Exponentials pass through a small buffer in fp32 (fp64 for
// double), so that a 16-bit output is rounded once.
#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "core/base/dtype.h"
#include "kernels/lane_sum.h"
#include "kernels/row_exp.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kChunk = 256;

/// Calls body(exps, begin, count) with exps[i] = exp(row[begin + i] - max), piece by piece.
template <typename T, typename Body>
void for_each_exp_chunk(const T* row, int64_t n, accumulate_t<T> max, Body&& body) {
  accumulate_t<T> exps[kChunk];
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    row_exp_sum(static_cast<accumulate_t<T>*>(exps), row + begin, count, max);
    body(static_cast<const accumulate_t<T>*>(exps), begin, count);
  }
}

template <typename T>
void write(T& destination, accumulate_t<T> value, bool accumulate) {
  destination =
      static_cast<T>(accumulate ? static_cast<accumulate_t<T>>(destination) + value : value);
}

}  // namespace

template <typename T>
void softmax_forward(T* output, const T* input, int64_t rows, int64_t n) {
  using A = accumulate_t<T>;
  if (n == 0) return;
  for (int64_t r = 0; r < rows; ++r, input += n, output += n) {
    const A max = row_max(input, n);
    const A factor = static_cast<A>(1.0 / row_exp_sum(static_cast<A*>(nullptr), input, n, max));
    for_each_exp_chunk(input, n, max, [&](const A* exps, int64_t begin, int64_t count) {
      for (int64_t i = 0; i < count; ++i) output[begin + i] = static_cast<T>(exps[i] * factor);
    });
  }
}

template <typename T>
void softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows, int64_t n,
                      bool accumulate) {
  using A = accumulate_t<T>;
  for (int64_t r = 0; r < rows; ++r, grad_input += n, grad_output += n, output += n) {
    const A dot = static_cast<A>(lane_sum(n, [&](int64_t i) {
      return static_cast<double>(static_cast<A>(grad_output[i])) * static_cast<A>(output[i]);
    }));
    for (int64_t i = 0; i < n; ++i) {
      const A value = static_cast<A>(output[i]) * (static_cast<A>(grad_output[i]) - dot);
      write(grad_input[i], value, accumulate);
    }
  }
}

template <typename T>
void log_softmax_forward(T* output, const T* input, int64_t rows, int64_t n) {
  using A = accumulate_t<T>;
  if (n == 0) return;
  for (int64_t r = 0; r < rows; ++r, input += n, output += n) {
    const A max = row_max(input, n);
    const A log_sum =
        static_cast<A>(std::log(row_exp_sum(static_cast<A*>(nullptr), input, n, max)));
    for (int64_t i = 0; i < n; ++i) {
      output[i] = static_cast<T>((static_cast<A>(input[i]) - max) - log_sum);
    }
  }
}

template <typename T>
void log_softmax_backward(T* grad_input, const T* grad_output, const T* output, int64_t rows,
                          int64_t n, bool accumulate) {
  using A = accumulate_t<T>;
  for (int64_t r = 0; r < rows; ++r, grad_input += n, grad_output += n, output += n) {
    const A sum =
        static_cast<A>(lane_sum(n, [&](int64_t i) { return static_cast<A>(grad_output[i]); }));
    for_each_exp_chunk(output, n, A{0}, [&](const A* exps, int64_t begin, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const A value = static_cast<A>(grad_output[begin + i]) - exps[i] * sum;
        write(grad_input[begin + i], value, accumulate);
      }
    });
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                      \
  template void softmax_forward<T>(T*, const T*, int64_t, int64_t);                  \
  template void softmax_backward<T>(T*, const T*, const T*, int64_t, int64_t, bool); \
  template void log_softmax_forward<T>(T*, const T*, int64_t, int64_t);              \
  template void log_softmax_backward<T>(T*, const T*, const T*, int64_t, int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
