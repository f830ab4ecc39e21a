// Stands before NVIDIA's <cuda_runtime.h> on the include path of the emulated build. Every
// declaration still comes from NVIDIA's header; this file only gives the CUDA keywords a meaning
// for a C++ compiler and adds what NVIDIA's header offers under nvcc alone.
#pragma once

#ifdef __CUDACC__
#error "tests/emulation/include must not be on nvcc's include path"
#endif

// NVIDIA's host_defines.h keeps these when they are defined first; when it came first, through some
// other header of NVIDIA's, they replace its attributes.
#undef __host__
#undef __device__
#undef __global__
#undef __constant__
#undef __managed__
#undef __grid_constant__
#undef __launch_bounds__
#undef __shared__
#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
// A block runs on one thread of the host, so a thread-local variable is a variable of the block.
// It also puts every __shared__ variable in the symbol table as a thread-local object inside a
// function, which is how the emulator finds them (g++ 12 drops section attributes in templates).
#define __shared__ static thread_local

#include_next <cuda_runtime.h>

#include "emulation/atomics.h"
#include "emulation/device.h"
#include "emulation/intrinsics.h"
#include "emulation/launch.h"
