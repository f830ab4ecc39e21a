// Kernels without bugs: what the emulator must run and find nothing wrong with.
#include "tests/emulation/testing/kernels.cuh"

#include "kernels/launch.cuh"

namespace lockstep::testing {
namespace {

__device__ int global_index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <typename Op>
__device__ float warp_reduce(float value, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance >>= 1) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// Every thread gets the result. The second barrier keeps the next use of the scratch memory away
// from threads that still read.
template <typename Op>
__device__ float block_reduce(float value, Op op, float identity, float* partial) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = warp_reduce(value, op);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? partial[lane] : identity, op);
  __syncthreads();
  return value;
}

}  // namespace

__global__ void fill(float* x, int n, float value) {
  const int i = global_index();
  if (i < n) x[i] = value;
}

__global__ void copy(const float* x, float* y, int n) {
  const int i = global_index();
  if (i < n) y[i] = x[i];
}

__global__ void axpy(float a, const float* x, float* y, int n) {
  const int i = global_index();
  if (i < n) y[i] += a * x[i];
}

__global__ void exchange(float* x) {
  __shared__ float shared[64];
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = shared[threadIdx.x ^ 33];
}

__global__ void exchange_in_warp(float* x) {
  __shared__ float shared[64];
  shared[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  x[threadIdx.x] = shared[threadIdx.x ^ 3];
}

__global__ void row_sum_and_max(const float* rows, float* sums, float* maxima, int columns) {
  const float* row = rows + static_cast<int64_t>(blockIdx.x) * columns;
  float sum = 0.0f, greatest = -INFINITY;
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += static_cast<int>(blockDim.x)) {
    sum += row[c];
    greatest = fmaxf(greatest, row[c]);
  }
  __shared__ float scratch[32];
  sum = block_reduce(sum, Sum{}, 0.0f, scratch);
  greatest = block_reduce(greatest, Max{}, -INFINITY, scratch);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
    maxima[blockIdx.x] = greatest;
  }
}

__global__ void through_dynamic(float* x, int n) {
  float* shared = kernels::dynamic_smem<float>();
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(n); i += blockDim.x) shared[i] = x[i];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(n); i += blockDim.x) {
    x[i] = shared[n - 1 - static_cast<int>(i)];
  }
}

// One block of 64: out[0..5].
__global__ void count_votes(int* out) {
  const unsigned i = threadIdx.x;
  const unsigned ballot = __ballot_sync(0xffffffffu, i % 2 == 0);
  const int all = __all_sync(0xffffffffu, 1);
  const int any = __any_sync(0xffffffffu, i == 7);
  const int sum = __reduce_add_sync(0xffffffffu, static_cast<int>(i));
  const unsigned same = __match_any_sync(0xffffffffu, static_cast<int>(i / 8));
  const int threes = __syncthreads_count(i % 3 == 0);
  const int some = __syncthreads_or(i == 63);
  const int every = __syncthreads_and(i != 63);
  if (i != 0) return;
  out[0] = static_cast<int>(ballot);
  out[1] = all;
  out[2] = any;
  out[3] = sum;
  out[4] = static_cast<int>(same);
  out[5] = threes;
  out[6] = some;
  out[7] = every;
}

// One warp: four results of each lane.
__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const int from = __shfl_sync(0xffffffffu, lane, lane + 1, 8);
  const int up = __shfl_up_sync(0xffffffffu, lane, 3);
  const int down = __shfl_down_sync(0xffffffffu, lane, 3, 16);
  const int crossed = __shfl_xor_sync(0xffffffffu, lane, 5);
  out[lane * 4] = from;
  out[lane * 4 + 1] = up;
  out[lane * 4 + 2] = down;
  out[lane * 4 + 3] = crossed;
}

__global__ void add_atomically(float* total) {
  if (threadIdx.x == 0) atomicAdd(total, 1.0f);
}

// Neighbouring threads write halves of one 4-byte word.
__global__ void fill_half(__half* x, float value) { x[threadIdx.x] = __float2half_rn(value); }

__global__ void coordinates(int64_t* out) {
  const unsigned inside = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + inside] =
      ((static_cast<int64_t>(blockIdx.z * 100 + blockIdx.y) * 100 + blockIdx.x) * 100 +
       threadIdx.z) *
          10000 +
      threadIdx.y * 100 + threadIdx.x;
}

// out[0] = fma(x0, x1, x2) in fp16; out[1] = exp(x0) in fp16.
__global__ void half_math(const float* x, float* out) {
  const __half a = __float2half_rn(x[0]), b = __float2half_rn(x[1]), c = __float2half_rn(x[2]);
  out[0] = __half2float(__hfma(a, b, c));
  out[1] = __half2float(hexp(a));
}

}  // namespace lockstep::testing
