// The one way to launch a kernel and the one way to its dynamic shared memory. Standard CUDA, but
// ordinary C++ syntax, so that a C++ compiler can read the same .cu files for tests/emulation/.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "kernels/cuda_check.h"

namespace lockstep::kernels {

/// Enqueues kernel(args...) on the stream of the current device. `dynamic_bytes` of shared memory
/// per block; above 48 KiB the kernel needs cudaFuncSetAttribute first. Throws Error when the
/// launch is refused; what goes wrong inside the kernel shows at the next synchronisation.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_bytes,
            cudaStream_t stream, Arguments&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_bytes;
  config.stream = stream;
  LOCKSTEP_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(args)...));
}

/// The block's dynamic shared memory, as an array of T. The #ifdef is here because C++ has no
/// `extern __shared__`; nothing else in the product depends on the compiler.
template <typename T>
__device__ T* dynamic_smem() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_smem_bytes[];
  return reinterpret_cast<T*>(dynamic_smem_bytes);
#else
  return ::lockstep::emulation::dynamic_shared_memory<T>();
#endif
}

}  // namespace lockstep::kernels
