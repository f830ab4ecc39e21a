// The state of the running block, shared by the files of the executor.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "emulation/control.h"
#include "tests/emulation/executor/executor.h"
#include "tests/emulation/executor/fiber.h"

namespace lockstep::emulation {

inline constexpr unsigned kMaxThreads = 1024;
inline constexpr unsigned kWarpSize = 32;
inline constexpr size_t kMaxDynamicShared = 227 * 1024;
inline constexpr size_t kRedZone = 256;

struct Warp {
  unsigned present = 0;  ///< lanes that the block has
  unsigned exited = 0;
  unsigned waiting = 0;
  uint16_t epoch = 0;
  WarpRequest request[kWarpSize];
  Fiber* fiber[kWarpSize];
  alignas(16) unsigned char value[kWarpSize][16];

  unsigned living(unsigned mask) const { return mask & present & ~exited; }
};

struct Barrier {
  std::vector<Fiber*> waiting;
  Place place{};
  Place other{};
  bool diverged = false;
  int sum = 0;
  int result[2] = {};  ///< of the last two barriers: a slow thread reads one while the next fills
  unsigned phase = 0;
};

struct Executor {
  std::recursive_mutex mutex;
  const KernelLaunch* launch = nullptr;
  Fiber host;  ///< the thread that runs the kernel
  FiberPool fibers;
  Fiber* running = nullptr;

  CudaThread threads[kMaxThreads];
  Warp warps[kMaxThreads / kWarpSize];
  unsigned order[kMaxThreads];  ///< in which threads start
  unsigned count = 0;           ///< threads in the block
  unsigned started = 0;
  unsigned living = 0;
  uint32_t block_number = 0;
  Barrier barrier;
  bool abandoned = false;
  unsigned atomics = 0;  ///< since the last switch for a spinning thread's sake

  // A ring of the fibers that can go on; a thread is in it at most once.
  Fiber* ready[2 * kMaxThreads];
  unsigned ready_first = 0;
  unsigned ready_last = 0;

  ThreadOrder thread_order = ThreadOrder::Ascending;
  std::mt19937 random{1};
  alignas(256) char dynamic_shared[kRedZone + kMaxDynamicShared + kRedZone];

  Executor();
};
Executor& executor();

/// Lets another fiber run until this one is ready again.
void wait_for_turn();
void make_ready(Fiber** fibers, unsigned count);
/// A lane has exited: the others of its warp may be complete now.
void complete_warp(Warp& warp);
void release_barrier();

std::string to_string(Place place);
std::string to_string(const CudaThread& thread);
/// "no thread of the block can go on: ...": who waits where.
std::string describe_deadlock();

}  // namespace lockstep::emulation
