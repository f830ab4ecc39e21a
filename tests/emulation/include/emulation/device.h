// What a kernel sees of its block: built-in variables, barriers and warp collectives. Each of them
// carries the source line of its call, so that a report can say where a thread waits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "vector_types.h"

namespace lockstep::emulation {

/// Where in the kernel's source a thread is.
struct Place {
  const char* file;
  int line;
};

/// One CUDA thread of the running block.
struct CudaThread {
  uint3 index;
  unsigned linear;  ///< x + y * width + z * width * height
  unsigned lane;
  unsigned warp;
  bool checked;  ///< inside the kernel's own code: its loads and stores are looked at
};

struct CudaBlock {
  char* dynamic_shared;
  unsigned dynamic_bytes;
};

extern CudaThread* current_thread;
extern CudaBlock current_block;

/// The running thread enters or leaves the kernel's own code.
void set_checked(bool checked);

enum class WarpOp : uint8_t {
  Sync,
  Shuffle,
  ShuffleUp,
  ShuffleDown,
  ShuffleXor,
  Ballot,
  All,
  Any,
  ReduceAdd,
  ReduceMin,
  ReduceMax,
  MatchAny,
};

/// Waits for every thread of the block; returns the number of threads that passed true.
int block_barrier(bool predicate, Place place);

/// One lane's part in a warp collective: value is the operand before and the result after.
struct WarpRequest {
  WarpOp op;
  unsigned mask;
  int argument;  ///< source lane, distance or xor mask of a shuffle
  int width;
  Place place;
};
void warp_collective(const WarpRequest& request, void* value, unsigned nbytes);
unsigned active_lanes();

[[noreturn]] void device_trap(Place place);

template <typename T>
T warp_value(WarpOp op, unsigned mask, T value, int argument, int width, Place place) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
  warp_collective({op, mask, argument, width, place}, &value, sizeof(T));
  return value;
}

}  // namespace lockstep::emulation

// One block runs at a time in a process, so plain variables will do. Macros would clash with
// cudaLaunchConfig_t::gridDim and cudaDeviceProp::warpSize.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

#define LOCKSTEP_EMULATION_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()
#define LOCKSTEP_EMULATION_PLACE (::lockstep::emulation::Place{file, line})

inline void __syncthreads(LOCKSTEP_EMULATION_SITE) {
  lockstep::emulation::block_barrier(false, LOCKSTEP_EMULATION_PLACE);
}
inline int __syncthreads_count(int predicate, LOCKSTEP_EMULATION_SITE) {
  return lockstep::emulation::block_barrier(predicate != 0, LOCKSTEP_EMULATION_PLACE);
}
inline int __syncthreads_or(int predicate, LOCKSTEP_EMULATION_SITE) {
  return lockstep::emulation::block_barrier(predicate != 0, LOCKSTEP_EMULATION_PLACE) != 0;
}
inline int __syncthreads_and(int predicate, LOCKSTEP_EMULATION_SITE) {
  return lockstep::emulation::block_barrier(predicate == 0, LOCKSTEP_EMULATION_PLACE) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, LOCKSTEP_EMULATION_SITE) {
  lockstep::emulation::warp_value(lockstep::emulation::WarpOp::Sync, mask, 0, 0, 32,
                                  LOCKSTEP_EMULATION_PLACE);
}
inline unsigned __activemask() { return lockstep::emulation::active_lanes(); }
// Blocks run one after the other and threads switch only where they wait, so memory is always in
// order; what a fence is for is left to a real GPU.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __trap(LOCKSTEP_EMULATION_SITE) {
  lockstep::emulation::device_trap(LOCKSTEP_EMULATION_PLACE);
}

#define LOCKSTEP_EMULATION_SHUFFLE(name, Argument, op)                                         \
  template <typename T>                                                                        \
  T name(unsigned mask, T value, Argument argument, int width = 32, LOCKSTEP_EMULATION_SITE) { \
    return lockstep::emulation::warp_value(lockstep::emulation::WarpOp::op, mask, value,       \
                                           static_cast<int>(argument), width,                  \
                                           LOCKSTEP_EMULATION_PLACE);                          \
  }
LOCKSTEP_EMULATION_SHUFFLE(__shfl_sync, int, Shuffle)
LOCKSTEP_EMULATION_SHUFFLE(__shfl_up_sync, unsigned, ShuffleUp)
LOCKSTEP_EMULATION_SHUFFLE(__shfl_down_sync, unsigned, ShuffleDown)
LOCKSTEP_EMULATION_SHUFFLE(__shfl_xor_sync, int, ShuffleXor)
#undef LOCKSTEP_EMULATION_SHUFFLE

#define LOCKSTEP_EMULATION_VOTE(Result, name, op)                                        \
  inline Result name(unsigned mask, int value, LOCKSTEP_EMULATION_SITE) {                \
    return static_cast<Result>(lockstep::emulation::warp_value(                          \
        lockstep::emulation::WarpOp::op, mask, value, 0, 32, LOCKSTEP_EMULATION_PLACE)); \
  }
LOCKSTEP_EMULATION_VOTE(unsigned, __ballot_sync, Ballot)
LOCKSTEP_EMULATION_VOTE(int, __all_sync, All)
LOCKSTEP_EMULATION_VOTE(int, __any_sync, Any)
LOCKSTEP_EMULATION_VOTE(int, __reduce_add_sync, ReduceAdd)
LOCKSTEP_EMULATION_VOTE(int, __reduce_min_sync, ReduceMin)
LOCKSTEP_EMULATION_VOTE(int, __reduce_max_sync, ReduceMax)
LOCKSTEP_EMULATION_VOTE(unsigned, __match_any_sync, MatchAny)
#undef LOCKSTEP_EMULATION_VOTE
