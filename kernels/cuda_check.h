// The check of every CUDA runtime call. It takes the error as a number, so that this header needs
// none of NVIDIA's.
#pragma once

#include "core/base/error.h"

namespace lockstep::kernels {

/// Throws Error (Internal): "cudaMalloc(&p, n): out of memory (cudaErrorMemoryAllocation)". The
/// thread's error is cleared first, so that the next call does not report it again.
[[noreturn]] void throw_cuda_error(int error, const char* call);

}  // namespace lockstep::kernels

/// Throws Error unless a CUDA runtime call returned cudaSuccess.
#define LOCKSTEP_CUDA_CHECK(...)                                                 \
  do {                                                                           \
    if (const int cuda_error = static_cast<int>(__VA_ARGS__); cuda_error != 0) { \
      ::lockstep::kernels::throw_cuda_error(cuda_error, #__VA_ARGS__);           \
    }                                                                            \
  } while (false)
