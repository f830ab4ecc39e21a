// What softmax, log_softmax and cross-entropy share: the maximum of a row, and exp(x - max) with
// its sum. Subtracting the maximum keeps every exponential in (0, 1], so that none overflows.
#pragma once

#include <cstdint>

#include "core/base/cpu.h"
#include "core/base/dtype.h"

namespace lockstep::kernels::cpu {

/// The largest of n >= 1 values. A NaN among them may be passed over: row_exp_sum still sees it.
template <typename T>
accumulate_t<T> row_max(const T* row, int64_t n, CpuCapability capability = cpu_capability());

/// exps[i] = exp(row[i] - max), unless exps is null; returns their sum, added in double.
/// Every row[i] <= max or NaN; exps may be row itself. The AVX2 path has its own exponential for
/// fp32 (and the 16-bit types), within 2 ulp of the exact value.
template <typename T>
double row_exp_sum(accumulate_t<T>* exps, const T* row, int64_t n, accumulate_t<T> max,
                   CpuCapability capability = cpu_capability());

/// The fp32 bodies for AVX2 (row_exp_avx2.cpp): only for a CPU that has it.
namespace avx2 {
float row_max(const float* row, int64_t n);
double row_exp_sum(float* exps, const float* row, int64_t n, float max);
}  // namespace avx2

}  // namespace lockstep::kernels::cpu
