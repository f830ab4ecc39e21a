// Barriers, warp collectives and atomics, and what is wrong with the way a kernel uses them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "emulation/atomics.h"
#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/block.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/report.h"

namespace lockstep::emulation {
namespace {

bool same_place(Place a, Place b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

template <typename F>
void for_each_lane(unsigned lanes, F visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<unsigned>(__builtin_ctz(lanes)));
}

int as_int(const unsigned char* bytes) {
  int value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// What all lanes of a vote or reduction get.
struct Votes {
  unsigned ballot = 0;
  unsigned sum = 0;
  int least = INT32_MAX;
  int greatest = INT32_MIN;
};

// The source lane of a shuffle; a lane whose source is outside of its segment reads itself.
unsigned shuffle_source(const WarpRequest& request, unsigned lane) {
  const int self = static_cast<int>(lane);
  const int first = self / request.width * request.width;
  const int last = first + request.width;
  int source = self;
  switch (request.op) {
    case WarpOp::Shuffle:
      return static_cast<unsigned>(first + (request.argument & (request.width - 1)));
    case WarpOp::ShuffleUp:
      source = self - request.argument;
      break;
    case WarpOp::ShuffleDown:
      source = self + request.argument;
      break;
    default:
      source = self ^ request.argument;
      // xor may reach an earlier segment, not a later one
      return static_cast<unsigned>(source < last ? source : self);
  }
  return static_cast<unsigned>(source >= first && source < last ? source : self);
}

using Values = unsigned char[kWarpSize][16];

void shuffle_lane(Warp& warp, unsigned lanes, unsigned lane, const Values& in) {
  const WarpRequest& request = warp.request[lane];
  const unsigned source = shuffle_source(request, lane);
  if ((lanes >> source & 1u) == 0) {
    report("synccheck",
           "shuffle at " + to_string(request.place) + ": lane " + std::to_string(lane) +
               " reads lane " + std::to_string(source) +
               ", which does not take part: the value is undefined",
           cudaErrorLaunchFailure);
    std::memset(warp.value[lane], 0xff, sizeof warp.value[lane]);
    return;
  }
  std::memcpy(warp.value[lane], in[source], sizeof in[source]);
}

int vote_result(const WarpRequest& request, const Votes& votes, unsigned lanes, const Values& in,
                unsigned lane) {
  switch (request.op) {
    case WarpOp::Ballot:
      return static_cast<int>(votes.ballot);
    case WarpOp::All:
      return votes.ballot == lanes;
    case WarpOp::Any:
      return votes.ballot != 0;
    case WarpOp::ReduceAdd:
      return static_cast<int>(votes.sum);
    case WarpOp::ReduceMin:
      return votes.least;
    case WarpOp::ReduceMax:
      return votes.greatest;
    default: {
      unsigned matching = 0;
      for_each_lane(lanes, [&](unsigned other) {
        if (as_int(in[other]) == as_int(in[lane])) matching |= 1u << other;
      });
      return static_cast<int>(matching);
    }
  }
}

void check_same_collective(const Warp& warp, unsigned lanes) {
  const WarpRequest& first = warp.request[__builtin_ctz(lanes)];
  bool told = false;
  for_each_lane(lanes, [&](unsigned lane) {
    const WarpRequest& request = warp.request[lane];
    if (told || (request.op == first.op && same_place(request.place, first.place))) return;
    told = true;
    report("synccheck",
           "lanes of one warp wait in different warp operations: " + to_string(first.place) +
               " and " + to_string(request.place),
           cudaErrorLaunchFailure);
  });
}

void compute_results(Warp& warp, unsigned lanes) {
  alignas(16) Values in;
  std::memcpy(in, warp.value, sizeof in);
  Votes votes;
  for_each_lane(lanes, [&](unsigned lane) {
    const int value = as_int(in[lane]);
    if (value != 0) votes.ballot |= 1u << lane;
    votes.sum += static_cast<unsigned>(value);
    votes.least = std::min(votes.least, value);
    votes.greatest = std::max(votes.greatest, value);
  });
  for_each_lane(lanes, [&](unsigned lane) {
    const WarpRequest& request = warp.request[lane];
    if (request.op == WarpOp::Sync) return;
    if (request.op >= WarpOp::Ballot) {
      const int result = vote_result(request, votes, lanes, in, lane);
      std::memcpy(warp.value[lane], &result, sizeof result);
      return;
    }
    shuffle_lane(warp, lanes, lane, in);
  });
}

// All lanes have arrived: their results are known at this moment, and they can go on.
void finish(Warp& warp, unsigned lanes) {
  count(&Counters::warp_collectives);
  // Shuffles and votes pass values among lanes, but do not order what lanes do to memory.
  if (warp.request[__builtin_ctz(lanes)].op == WarpOp::Sync) ++warp.epoch;
  check_same_collective(warp, lanes);
  compute_results(warp, lanes);
  warp.waiting &= ~lanes;
  Fiber* waiting[kWarpSize];
  unsigned size = 0;
  for_each_lane(lanes, [&](unsigned lane) {
    if (warp.fiber[lane] != executor().running) waiting[size++] = warp.fiber[lane];
  });
  make_ready(waiting, size);
}

// Every living lane of the mask waits, all with that mask.
bool is_complete(const Warp& warp, unsigned mask, unsigned* lanes) {
  *lanes = warp.living(mask);
  if (*lanes == 0 || (warp.waiting & *lanes) != *lanes) return false;
  bool agree = true;
  for_each_lane(*lanes, [&](unsigned lane) { agree = agree && warp.request[lane].mask == mask; });
  return agree;
}

}  // namespace

void complete_warp(Warp& warp) {
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((warp.waiting >> lane & 1u) != 0 && is_complete(warp, warp.request[lane].mask, &lanes)) {
      finish(warp, lanes);
    }
  }
}

void release_barrier() {
  Executor& state = executor();
  Barrier& barrier = state.barrier;
  count(&Counters::barriers);
  if (state.living != state.count) {
    report("synccheck",
           "__syncthreads at " + to_string(barrier.place) + " reached by " +
               std::to_string(state.living) + " of " + std::to_string(state.count) +
               " threads of the block; the others have returned",
           cudaErrorLaunchFailure);
  }
  if (barrier.diverged) {
    report("synccheck",
           "threads of one block wait in different __syncthreads: " + to_string(barrier.place) +
               " and " + to_string(barrier.other),
           cudaErrorLaunchFailure);
  }
  barrier.result[barrier.phase & 1] = barrier.sum;
  ++barrier.phase;
  barrier.sum = 0;
  barrier.diverged = false;
  make_ready(barrier.waiting.data(), static_cast<unsigned>(barrier.waiting.size()));
  barrier.waiting.clear();
}

int block_barrier(bool predicate, Place place) {
  Unchecked unchecked;
  Executor& state = executor();
  Barrier& barrier = state.barrier;
  if (barrier.waiting.empty()) {
    barrier.place = place;
  } else if (!same_place(place, barrier.place)) {
    barrier.diverged = true;
    barrier.other = place;
  }
  barrier.sum += predicate ? 1 : 0;
  const unsigned phase = barrier.phase;
  if (barrier.waiting.size() + 1 == state.living) {
    release_barrier();
  } else {
    barrier.waiting.push_back(state.running);
    wait_for_turn();
  }
  return barrier.result[phase & 1];
}

void warp_collective(const WarpRequest& request, void* value, unsigned nbytes) {
  Unchecked unchecked;
  const CudaThread& thread = *current_thread;
  Warp& warp = executor().warps[thread.warp];
  if ((request.mask >> thread.lane & 1u) == 0) {
    report("synccheck",
           to_string(thread) + " is not in its own mask at " + to_string(request.place),
           cudaErrorLaunchFailure);
  }
  std::memcpy(warp.value[thread.lane], value, nbytes);
  warp.request[thread.lane] = request;
  warp.fiber[thread.lane] = executor().running;
  warp.waiting |= 1u << thread.lane;
  unsigned lanes = 0;
  if (is_complete(warp, request.mask, &lanes)) {
    finish(warp, lanes);
  } else {
    wait_for_turn();
  }
  std::memcpy(value, warp.value[thread.lane], nbytes);
}

unsigned active_lanes() {
  const Warp& warp = executor().warps[current_thread->warp];
  return warp.living(~0u) & ~warp.waiting;
}

void device_trap(Place place) {
  Unchecked unchecked;
  report("trap", "__trap at " + to_string(place) + " by " + to_string(*current_thread),
         cudaErrorLaunchFailure);
  abandon_kernel();
}

void atomic_access(const void* address, unsigned nbytes) {
  if (!in_device_code()) {
    std::fprintf(stderr, "emulation: an atomic of device code was called on the host\n");
    std::abort();
  }
  {
    Unchecked unchecked;
    if (reinterpret_cast<uintptr_t>(address) % nbytes != 0) {
      report("memcheck", "misaligned atomic at " + describe(address), cudaErrorMisalignedAddress);
      abandon_kernel();
    }
  }
  check_atomic(address, nbytes, __builtin_return_address(0));
  constexpr unsigned kSpinsBetweenSwitches = 4096;
  Executor& state = executor();
  if (++state.atomics < kSpinsBetweenSwitches) return;
  state.atomics = 0;
  make_ready(&state.running, 1);
  wait_for_turn();
}

void unchecked_copy(void* destination, const void* source, unsigned nbytes) {
  std::memcpy(destination, source, nbytes);
}

std::string to_string(Place place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

std::string to_string(const CudaThread& thread) {
  char text[128];
  std::snprintf(text, sizeof text, "thread (%u,%u,%u) of block (%u,%u,%u)", thread.index.x,
                thread.index.y, thread.index.z, blockIdx.x, blockIdx.y, blockIdx.z);
  return text;
}

std::string describe_deadlock() {
  Executor& state = executor();
  std::map<std::string, std::vector<unsigned>> waiting;
  for (const Fiber* fiber : state.barrier.waiting) {
    waiting["__syncthreads at " + to_string(state.barrier.place)].push_back(fiber->thread->linear);
  }
  for (unsigned w = 0; w * kWarpSize < state.count; ++w) {
    const Warp& warp = state.warps[w];
    for_each_lane(warp.waiting, [&](unsigned lane) {
      char mask[16];
      std::snprintf(mask, sizeof mask, "%08x", warp.request[lane].mask);
      waiting["a warp operation at " + to_string(warp.request[lane].place) + " with mask " + mask]
          .push_back(w * kWarpSize + lane);
    });
  }
  std::string text = "no thread of the block can go on:";
  for (const auto& [where, threads] : waiting) {
    text += "\n    " + std::to_string(threads.size()) + " threads (first " +
            std::to_string(threads[0]) + ") wait in " + where;
  }
  return text;
}

}  // namespace lockstep::emulation
