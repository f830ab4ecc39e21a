// The inverse of the error function, for truncated normals.
#pragma once

#include <cstdint>

#include "core/base/cpu.h"

namespace lockstep::kernels::cpu {

/// data[i] = erfinv(data[i]) for values in (-1, 1); -1 and 1 become the infinities. A rational
/// approximation, then two Newton steps with the C library's erf; each multiply-add is fused on the
/// AVX2 path, as in PyTorch. T is float or double.
template <typename T>
void erfinv(T* data, int64_t n, CpuCapability capability = cpu_capability());

}  // namespace lockstep::kernels::cpu
