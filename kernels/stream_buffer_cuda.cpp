// Stream-ordered allocation: cudaMallocAsync and cudaFreeAsync of the current device's pool.
#include "kernels/stream_buffer.h"

#include <cuda_runtime.h>

#include "kernels/cuda_check.h"

namespace lockstep::kernels::cuda {

void* allocate_on_stream(size_t nbytes, Stream stream) {
  void* data = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaMallocAsync(&data, nbytes, stream));
  return data;
}

void free_on_stream(void* data, Stream stream) noexcept { cudaFreeAsync(data, stream); }

}  // namespace lockstep::kernels::cuda
