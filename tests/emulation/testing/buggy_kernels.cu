// Kernels with one bug each; the comment says which.
#include "kernels/launch.cuh"
#include "tests/emulation/testing/kernels.cuh"

namespace lockstep::testing {

// No barrier between the store and the load.
__global__ void exchange_without_barrier(float* x) {
  __shared__ float shared[64];
  shared[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = shared[threadIdx.x ^ 33];
}

// A shuffle is not a barrier for memory.
__global__ void exchange_after_shuffle(float* x) {
  __shared__ float shared[64];
  shared[threadIdx.x] = x[threadIdx.x];
  const float same = __shfl_sync(0xffffffffu, 1.0f, 0);
  x[threadIdx.x] = same * shared[threadIdx.x ^ 3];
}

// The second turn stores while slower threads may still read what the first one stored.
__global__ void scratch_used_again(float* x) {
  __shared__ float scratch[2];
  for (int turn = 0; turn < 2; ++turn) {
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x[threadIdx.x] + 1.0f;
    __syncthreads();
    x[threadIdx.x] = scratch[0] + scratch[1];
  }
}

// <= for <.
__global__ void off_by_one(float* x, int n) {
  for (int i = static_cast<int>(threadIdx.x); i <= n; i += static_cast<int>(blockDim.x)) x[i] = 1;
}

// Half of the array is never written.
__global__ void reads_uninitialised_shared(float* x) {
  __shared__ float shared[64];
  if (threadIdx.x < 32) shared[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = shared[threadIdx.x];
}

__global__ void returns_before_barrier(float* x, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  x[threadIdx.x] = 1;
  __syncthreads();
}

__global__ void different_barriers(float* x) {
  if (threadIdx.x % 2 != 0) {
    __syncthreads();
  } else {
    x[0] = 1;
    __syncthreads();
  }
}

// Lane 15 reads lane 23, which is not in the mask.
__global__ void shuffle_from_outside(float* x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_down_sync(0x0000ffffu, 1.0f, 8);
}

__global__ void different_warp_operations(float* x) {
  if (threadIdx.x < 16) {
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  } else {
    x[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f, 1);
  }
}

// The full mask, but half of the warp goes to a barrier.
__global__ void waits_for_missing_lanes(float* x) {
  if (threadIdx.x < 16) {
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  } else {
    __syncthreads();
  }
}

__global__ void not_in_own_mask(float* x) {
  if (threadIdx.x < 2) x[threadIdx.x] = __shfl_sync(1u << (1 - threadIdx.x), 1.0f, 0);
}

__global__ void adds_without_atomic(float* total) {
  if (threadIdx.x == 0) *total = *total + 1;
}

__global__ void traps(float* x) {
  if (threadIdx.x == 7) __trap();
  x[threadIdx.x] = 1;
}

// x is 4-byte aligned only.
__global__ void misaligned_double(float* x) { reinterpret_cast<double*>(x)[threadIdx.x] = 1.0; }

// The same. g++ may store a float4 as four floats, which only the undefined-behaviour sanitizer
// recognises as one wide store.
__global__ void misaligned_vector(float* x) {
  reinterpret_cast<float4*>(x)[threadIdx.x] = make_float4(1, 2, 3, 4);
}

// Dynamic shared memory for n floats, and one more is used.
__global__ void overruns_dynamic(float* x, int n) {
  float* shared = kernels::dynamic_smem<float>();
  for (int i = static_cast<int>(threadIdx.x); i <= n; i += static_cast<int>(blockDim.x)) {
    shared[i] = static_cast<float>(i);
  }
  __syncthreads();
  x[threadIdx.x] = shared[threadIdx.x];
}

// n may be more than 64.
__global__ void overruns_static(float* x, int n) {
  __shared__ float shared[64];
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    shared[i] = static_cast<float>(i);
  }
  __syncthreads();
  x[threadIdx.x] = shared[threadIdx.x];
}

// A bad pointer inside a struct is not seen at the launch.
__global__ void through_struct(Pointers pointers) {
  pointers.to[threadIdx.x] = pointers.from[threadIdx.x];
}

// An address of the host that the launch cannot recognise as a pointer.
__global__ void reads_host_variable(float* x, uintptr_t address) {
  x[threadIdx.x] = *reinterpret_cast<const float*>(address);
}

}  // namespace lockstep::testing
