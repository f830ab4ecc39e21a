// Embedding on the CPU: copies of rows forward, additions in sample order backward, so that the
// result repeats bit for bit.
#include "kernels/embedding.h"

#include <algorithm>
#include <type_traits>

namespace lockstep::kernels::cpu {
namespace {

/// table[indices[i], :] += rows[i, :]
template <typename A, typename T>
void add_rows(A* table, const T* rows, const int64_t* indices, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; ++i) {
    A* __restrict destination = table + indices[i] * width;
    const T* __restrict source = rows + i * width;
    for (int64_t c = 0; c < width; ++c) destination[c] += static_cast<A>(source[c]);
  }
}

}  // namespace

template <typename T>
int64_t embedding_forward(T* output, const T* weight, const int64_t* indices, int64_t n,
                          int64_t rows, int64_t width) {
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < 0 || indices[i] >= rows) return i;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(weight + indices[i] * width, width, output + i * width);
  }
  return -1;
}

template <typename T>
void embedding_backward(T* grad_weight, accumulate_t<T>* sums, const T* grad_output,
                        const int64_t* indices, int64_t n, int64_t rows, int64_t width,
                        bool accumulate) {
  using A = accumulate_t<T>;
  const int64_t numel = rows * width;
  if constexpr (std::is_same_v<T, A>) {
    if (!accumulate) std::fill_n(grad_weight, numel, T{});
    add_rows(grad_weight, grad_output, indices, n, width);
  } else {
    for (int64_t i = 0; i < numel; ++i) sums[i] = accumulate ? static_cast<A>(grad_weight[i]) : A{};
    add_rows(sums, grad_output, indices, n, width);
    for (int64_t i = 0; i < numel; ++i) grad_weight[i] = static_cast<T>(sums[i]);
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                                   \
  template int64_t embedding_forward<T>(T*, const T*, const int64_t*, int64_t, int64_t, int64_t); \
  template void embedding_backward<T>(T*, accumulate_t<T>*, const T*, const int64_t*, int64_t,    \
                                      int64_t, int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
