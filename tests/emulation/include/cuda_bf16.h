// NVIDIA's <cuda_bf16.h> plus what it offers in device code only.
#pragma once

#include_next <cuda_bf16.h>
#include <cuda_runtime.h>

#include "emulation/half_device.h"

LOCKSTEP_EMULATION_HALF(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16_rn)
