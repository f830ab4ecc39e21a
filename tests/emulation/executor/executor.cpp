// The loop over blocks and the scheduling of a block's threads.
#include "tests/emulation/executor/executor.h"

#include <algorithm>
#include <cstring>

#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/block.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/report.h"
#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/runtime/symbols.h"
#include "tests/emulation/sanitizer.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace lockstep::emulation {

CudaThread* current_thread = nullptr;
CudaBlock current_block;

namespace {

thread_local bool inside_kernel = false;

constexpr unsigned char kUninitialised = 0xff;  // NaN in every floating-point type

void switch_to(Fiber& to, bool from_ends = false) {
  Executor& state = executor();
  Fiber& from = state.running != nullptr ? *state.running : state.host;
  state.running = &to == &state.host ? nullptr : &to;
  current_thread = to.thread;
  if (current_thread != nullptr) threadIdx = current_thread->index;
  switch_fiber(from, to, from_ends);
}

// Goes on with a fiber that is ready, else with one that starts the next thread, else with the
// host: then no thread can go on.
void schedule() {
  Executor& state = executor();
  Fiber* to = &state.host;
  if (state.ready_first != state.ready_last) {
    to = state.ready[state.ready_first++ % (2 * kMaxThreads)];
  } else if (state.started < state.count) {
    to = state.fibers.take();
  }
  if (to != state.running) switch_to(*to);
}

void exit_thread(const CudaThread& thread) {
  Executor& state = executor();
  Warp& warp = state.warps[thread.warp];
  warp.exited |= 1u << thread.lane;
  --state.living;
  const size_t waiting = state.barrier.waiting.size();
  if (waiting != 0 && waiting == state.living) release_barrier();
  if (warp.waiting != 0) complete_warp(warp);
}

// Runs threads one after the other. One that waits keeps this fiber; another fiber goes on with
// the threads that have not started.
void fiber_main() {
  fiber_entered();
  Executor& state = executor();
  for (;;) {
    Fiber* self = state.running;
    while (state.started < state.count) {
      CudaThread* thread = &state.threads[state.order[state.started++]];
      self->thread = current_thread = thread;
      threadIdx = thread->index;
      state.launch->body();
      exit_thread(*thread);
    }
    self->thread = nullptr;
    state.fibers.give_back(self);
    schedule();
  }
}

void number_threads(const KernelLaunch& launch) {
  Executor& state = executor();
  const dim3 size = launch.block;
  state.count = size.x * size.y * size.z;
  for (unsigned i = 0; i < state.count; ++i) {
    const uint3 index{i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    state.threads[i] = {index, i, i % kWarpSize, i / kWarpSize, false};
  }
}

void start_block(uint32_t number) {
  Executor& state = executor();
  const dim3 grid = state.launch->grid;
  blockIdx = uint3{number % grid.x, number / grid.x % grid.y, number / (grid.x * grid.y)};
  state.block_number = number;
  state.living = state.count;
  state.started = 0;
  state.ready_first = state.ready_last = 0;
  state.barrier = Barrier{};
  for (unsigned i = 0; i < state.count; ++i) {
    state.order[i] = state.thread_order == ThreadOrder::Descending ? state.count - 1 - i : i;
  }
  if (state.thread_order == ThreadOrder::Random) {
    std::shuffle(state.order, state.order + state.count, state.random);
  }
  for (unsigned first = 0; first < state.count; first += kWarpSize) {
    Warp& warp = state.warps[first / kWarpSize];
    const unsigned lanes = std::min(kWarpSize, state.count - first);
    warp.present = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
    warp.exited = warp.waiting = 0;
    warp.epoch = 0;
  }
}

// Static shared memory of a kernel. Which variables belong to it is not known, so all are filled;
// a kernel that leaves them alone in its first block does not use any.
class StaticShared {
 public:
  StaticShared() : variables_(shared_variables()) {}

  const std::vector<SharedVariable>& variables() const { return variables_; }
  void fill() const {
    if (!used_) return;
    for (const SharedVariable& v : variables_) std::memset(v.begin, kUninitialised, v.nbytes);
  }
  void look_whether_used() {
    used_ = std::any_of(variables_.begin(), variables_.end(), [](const SharedVariable& variable) {
      return std::any_of(variable.begin, variable.begin + variable.nbytes, [](char byte) {
        return static_cast<unsigned char>(byte) != kUninitialised;
      });
    });
  }

 private:
  const std::vector<SharedVariable>& variables_;
  bool used_ = true;
};

void run_blocks(const KernelLaunch& launch, StaticShared& shared) {
  Executor& state = executor();
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  for (uint64_t i = 0; i < blocks && !state.abandoned; ++i) {
    const bool backwards = state.thread_order == ThreadOrder::Descending;
    start_block(static_cast<uint32_t>(backwards ? blocks - 1 - i : i));
    std::memset(current_block.dynamic_shared, kUninitialised, launch.dynamic_bytes);
    shared.fill();
    check_block_start();
    switch_to(*state.fibers.take());
    if (i == 0) shared.look_whether_used();
    if (!state.abandoned && state.living != 0) {
      report("deadlock", describe_deadlock(), cudaErrorLaunchTimeout);
      state.abandoned = true;
    }
  }
}

}  // namespace

Executor::Executor() : fibers(&fiber_main) {
  const std::string order_word = setting_word("LOCKSTEP_EMU_ORDER");
  if (order_word == "descending") thread_order = ThreadOrder::Descending;
  if (order_word == "random") thread_order = ThreadOrder::Random;
  random.seed(static_cast<unsigned>(setting("LOCKSTEP_EMU_SEED", 1)));
}

Executor& executor() {
  static auto* state = new Executor;  // threads of streams outlive main
  return *state;
}

std::recursive_mutex& kernel_mutex() { return executor().mutex; }
bool in_device_code() { return inside_kernel; }
DynamicShared dynamic_shared_arena() {
  return {executor().dynamic_shared, sizeof executor().dynamic_shared};
}

bool on_fiber_stack(const void* address) {
  const Fiber* fiber = executor().running;
  const auto* byte = static_cast<const char*>(address);
  constexpr size_t kGuardPage = 4096;
  return fiber != nullptr && byte >= fiber->stack - kGuardPage &&
         byte < fiber->stack + fiber->stack_bytes;
}

Epoch current_epoch() {
  const Executor& state = executor();
  return {state.block_number, static_cast<uint16_t>(current_thread->linear),
          static_cast<uint16_t>(state.barrier.phase), state.warps[current_thread->warp].epoch};
}

void set_thread_order(ThreadOrder order, unsigned seed) {
  std::lock_guard lock(executor().mutex);
  executor().thread_order = order;
  executor().random.seed(seed);
}

void set_checked(bool checked) { current_thread->checked = checked; }

void wait_for_turn() { schedule(); }

void make_ready(Fiber** fibers, unsigned count) {
  Executor& state = executor();
  if (state.thread_order == ThreadOrder::Descending) std::reverse(fibers, fibers + count);
  if (state.thread_order == ThreadOrder::Random) {
    std::shuffle(fibers, fibers + count, state.random);
  }
  for (unsigned i = 0; i < count; ++i) {
    state.ready[state.ready_last++ % (2 * kMaxThreads)] = fibers[i];
  }
}

void abandon_kernel() {
  executor().abandoned = true;
  switch_to(executor().host, true);
  __builtin_unreachable();
}

void run_kernel(const KernelLaunch& launch) {
  Executor& state = executor();
  std::lock_guard lock(state.mutex);
  StaticShared shared;
  state.launch = &launch;
  state.abandoned = false;
  blockDim = launch.block;
  gridDim = launch.grid;
  current_block = {state.dynamic_shared + kRedZone, launch.dynamic_bytes};
  number_threads(launch);
  describe_thread_stack(state.host);
  asan_poison(state.dynamic_shared, sizeof state.dynamic_shared);
  asan_unpoison(current_block.dynamic_shared, launch.dynamic_bytes);
  check_kernel_start(shared.variables());
  inside_kernel = true;
  run_blocks(launch, shared);
  inside_kernel = false;
  check_kernel_end();
  state.running = nullptr;
  current_thread = nullptr;
  if (state.abandoned) state.fibers.restart();  // they are stuck in the middle of the kernel
}

}  // namespace lockstep::emulation
