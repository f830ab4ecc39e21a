// Small kernels for the emulator's own tests: some right, most with one bug planted.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace lockstep::testing {

// Right.
__global__ void fill(float* x, int n, float value);
__global__ void copy(const float* x, float* y, int n);
__global__ void axpy(float a, const float* x, float* y, int n);
/// x[i] of the 64 threads of a block becomes x[i ^ 33], through shared memory.
__global__ void exchange(float* x);
/// The same between lanes of one warp, ordered by __syncwarp.
__global__ void exchange_in_warp(float* x);
/// Sum and maximum of a row by a block of any multiple of 32 threads.
__global__ void row_sum_and_max(const float* rows, float* sums, float* maxima, int columns);
/// Reverses n floats through dynamic shared memory.
__global__ void through_dynamic(float* x, int n);
__global__ void count_votes(int* out);
__global__ void shuffles(int* out);
__global__ void add_atomically(float* total);
__global__ void fill_half(__half* x, float value);
/// out[linear thread number] = its x, y, z and block, as a base-100 number.
__global__ void coordinates(int64_t* out);
__global__ void half_math(const float* x, float* out);

// With a bug.
__global__ void exchange_without_barrier(float* x);
__global__ void exchange_after_shuffle(float* x);
__global__ void scratch_used_again(float* x);
__global__ void off_by_one(float* x, int n);
__global__ void reads_uninitialised_shared(float* x);
__global__ void returns_before_barrier(float* x, int n);
__global__ void different_barriers(float* x);
__global__ void shuffle_from_outside(float* x);
__global__ void different_warp_operations(float* x);
__global__ void waits_for_missing_lanes(float* x);
__global__ void not_in_own_mask(float* x);
__global__ void adds_without_atomic(float* total);
__global__ void traps(float* x);
__global__ void misaligned_double(float* x);
__global__ void misaligned_vector(float* x);
__global__ void overruns_dynamic(float* x, int n);
__global__ void overruns_static(float* x, int n);
struct Pointers {
  const float* from;
  float* to;
};
__global__ void through_struct(Pointers pointers);
__global__ void reads_host_variable(float* x, uintptr_t address);

}  // namespace lockstep::testing
