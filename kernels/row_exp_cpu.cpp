// Row maximum and exponentials: the portable path, and the 16-bit types, which go through a small
// fp32 buffer so that both paths serve them.
#include "kernels/row_exp.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/lane_sum.h"

namespace lockstep::kernels::cpu {
namespace {

constexpr int64_t kChunk = 256;

template <typename T>
T portable_max(const T* row, int64_t n) {
  T best = row[0];
  for (int64_t i = 1; i < n; ++i) best = row[i] > best ? row[i] : best;
  return best;
}

template <typename T>
double portable_exp_sum(T* exps, const T* row, int64_t n, T max) {
  if (exps == nullptr) return lane_sum(n, [&](int64_t i) { return std::exp(row[i] - max); });
  for (int64_t i = 0; i < n; ++i) exps[i] = std::exp(row[i] - max);
  return lane_sum(n, [&](int64_t i) { return exps[i]; });
}

/// Calls body(values, begin, count) for pieces of the row converted to fp32.
template <typename T, typename Body>
void for_each_chunk(const T* row, int64_t n, Body&& body) {
  float values[kChunk];
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(row[begin + i]);
    body(static_cast<float*>(values), begin, count);
  }
}

}  // namespace

template <typename T>
accumulate_t<T> row_max(const T* row, int64_t n, CpuCapability capability) {
  if constexpr (std::is_same_v<T, float>) {
    if (capability == CpuCapability::Avx2) return avx2::row_max(row, n);
    return portable_max(row, n);
  } else if constexpr (std::is_same_v<T, double>) {
    return portable_max(row, n);
  } else {
    float best = static_cast<float>(row[0]);
    for_each_chunk(row, n, [&](const float* values, int64_t, int64_t count) {
      const float chunk = row_max(values, count, capability);
      best = chunk > best ? chunk : best;
    });
    return best;
  }
}

template <typename T>
double row_exp_sum(accumulate_t<T>* exps, const T* row, int64_t n, accumulate_t<T> max,
                   CpuCapability capability) {
  if constexpr (std::is_same_v<T, float>) {
    if (capability == CpuCapability::Avx2) return avx2::row_exp_sum(exps, row, n, max);
    return portable_exp_sum(exps, row, n, max);
  } else if constexpr (std::is_same_v<T, double>) {
    return portable_exp_sum(exps, row, n, max);
  } else {
    double sum = 0.0;
    for_each_chunk(row, n, [&](float* values, int64_t begin, int64_t count) {
      float* destination = exps == nullptr ? values : exps + begin;
      sum += row_exp_sum(destination, static_cast<const float*>(values), count, max, capability);
    });
    return sum;
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                        \
  template accumulate_t<T> row_max<T>(const T*, int64_t, CpuCapability);               \
  template double row_exp_sum<T>(accumulate_t<T>*, const T*, int64_t, accumulate_t<T>, \
                                 CpuCapability);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
