// Sums on the CPU: blocks whose lanes the compiler keeps in vector registers, and a tree (or, for
// columns, a second level) above them.
#include "kernels/reduce.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cast.h"
#include "kernels/lane_sum.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kBlock = 1024;
constexpr int64_t kColumns = 32;     // eight SSE registers of partial sums
constexpr int64_t kRowsAtOnce = 64;  // added one by one before they go to the second level

template <typename T, typename Term>
double block_sum(const T* input, int64_t n, Term&& term) {
  if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    return lane_sum(n, [&](int64_t i) { return term(static_cast<double>(input[i])); });
  } else {
    float values[kBlock];
    to_float(values, input, n);
    return lane_sum(n, [&](int64_t i) { return term(static_cast<double>(values[i])); });
  }
}

/// Halves at a multiple of the block; the depth is log2(n / kBlock).
template <typename T, typename Term>
double pairwise_sum(const T* input, int64_t n, Term&& term) {
  if (n <= kBlock) return block_sum(input, n, term);
  const int64_t half = (n / 2 + kBlock - 1) / kBlock * kBlock;
  return pairwise_sum(input, half, term) + pairwise_sum(input + half, n - half, term);
}

/// Pointer to `count` values as accumulate_t<T>: the values themselves, or `buffer` filled.
template <typename T>
const accumulate_t<T>* as_accumulated(const T* input, int64_t count, accumulate_t<T>* buffer) {
  if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    return input;
  } else {
    to_float(buffer, input, count);
    return buffer;
  }
}

/// total[c] += the sums of `rows` rows of `count` values that are `stride` apart. kCount is `count`
/// where it is known to the compiler, else 0.
template <int64_t kCount, typename T>
void add_rows(accumulate_t<T>* total, const T* input, int64_t rows, int64_t stride,
              int64_t given_count) {
  using A = accumulate_t<T>;
  const int64_t count = kCount > 0 ? kCount : given_count;
  A part[kColumns] = {};
  A buffer[kColumns];
  for (int64_t r = 0; r < rows; ++r) {
    const A* row = as_accumulated(input + r * stride, count, buffer);
    for (int64_t c = 0; c < count; ++c) part[c] += row[c];
  }
  for (int64_t c = 0; c < count; ++c) total[c] += part[c];
}

}  // namespace

template <typename T>
double sum(const T* input, int64_t n) {
  return pairwise_sum(input, n, [](double x) { return x; });
}

template <typename T>
double sum_of_squares(const T* input, int64_t n) {
  return pairwise_sum(input, n, [](double x) { return x * x; });
}

template <typename T>
void column_sum(T* sums, const T* input, int64_t rows, int64_t columns, bool accumulate) {
  using A = accumulate_t<T>;
  for (int64_t begin = 0; begin < columns; begin += kColumns) {
    const int64_t count = std::min(kColumns, columns - begin);
    A total[kColumns] = {};
    for (int64_t r = 0; r < rows; r += kRowsAtOnce) {
      const T* first = input + r * columns + begin;
      const int64_t some = std::min(kRowsAtOnce, rows - r);
      if (count == kColumns) {
        add_rows<kColumns>(total, first, some, columns, count);
      } else {
        add_rows<0>(total, first, some, columns, count);
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      T& result = sums[begin + c];
      result = static_cast<T>(accumulate ? static_cast<A>(result) + total[c] : total[c]);
    }
  }
}

#define LOCKSTEP_INSTANTIATE(T)                         \
  template double sum<T>(const T*, int64_t);            \
  template double sum_of_squares<T>(const T*, int64_t); \
  template void column_sum<T>(T*, const T*, int64_t, int64_t, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
