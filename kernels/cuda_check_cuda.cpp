// Turns an error of the CUDA runtime into ours.
#include <cuda_runtime.h>

#include "kernels/cuda_check.h"

namespace lockstep::kernels {

void throw_cuda_error(int error, const char* call) {
  const auto code = static_cast<cudaError_t>(error);
  cudaGetLastError();
  LOCKSTEP_THROW(Internal, call, ": ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")");
}

}  // namespace lockstep::kernels
