// NVIDIA's <cuda_fp16.h> works under a host compiler (operators, conversions, comparisons); this
// adds what it offers in device code only.
#pragma once

#include_next <cuda_fp16.h>
#include <cuda_runtime.h>

#include "emulation/half_device.h"

LOCKSTEP_EMULATION_HALF(__half, __half2, __half2float, __float2half_rn)

inline int __half2int_rn(__half value) {
  return static_cast<int>(std::nearbyint(__half2float(value)));
}
