// Groups, and calls that finish in the background.
#include "tests/emulation/nccl/group.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/runtime/settings.h"

namespace lockstep::emulation {
namespace {

struct Kept {
  ncclComm* communicator;
  std::function<ncclResult_t()> call;
};
struct Group {
  int depth = 0;
  std::vector<Kept> initialisations;
  std::vector<Kept> calls;
};
thread_local Group group;

constexpr std::chrono::milliseconds kBackgroundDelay{2};

ncclResult_t run_initialisations(std::vector<Kept>& kept) {
  std::vector<std::thread> threads;
  std::vector<ncclResult_t> results(kept.size(), ncclSuccess);
  for (size_t i = 0; i < kept.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = kept[i].call(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

// The calls of one non-blocking communicator, one after the other in one background thread.
void run_in_background(ncclComm* communicator, std::vector<std::function<ncclResult_t()>> calls) {
  if (communicator->background.joinable()) communicator->background.join();
  communicator->state = ncclInProgress;
  communicator->background = std::thread([communicator, calls = std::move(calls)] {
    std::this_thread::sleep_for(kBackgroundDelay);
    ncclResult_t result = ncclSuccess;
    for (const auto& call : calls) {
      if (const ncclResult_t r = call(); r != ncclSuccess) result = r;
    }
    communicator->state = result;
  });
}

bool in_background(const ncclComm* communicator) {
  return !communicator->blocking && setting("LOCKSTEP_EMU_NCCL_IN_PROGRESS", 0) != 0;
}

ncclResult_t end_group() {
  auto initialisations = std::exchange(group.initialisations, {});
  auto calls = std::exchange(group.calls, {});
  ncclResult_t result = run_initialisations(initialisations);
  std::vector<std::pair<ncclComm*, std::vector<std::function<ncclResult_t()>>>> later;
  for (Kept& kept : calls) {
    if (!in_background(kept.communicator)) {
      if (const ncclResult_t r = kept.call(); r != ncclSuccess) result = r;
      continue;
    }
    if (later.empty() || later.back().first != kept.communicator) {
      later.push_back({kept.communicator, {}});
    }
    later.back().second.push_back(std::move(kept.call));
  }
  for (auto& [communicator, list] : later) run_in_background(communicator, std::move(list));
  return result == ncclSuccess && !later.empty() ? ncclInProgress : result;
}

}  // namespace

bool in_group() { return group.depth > 0; }

void add_to_group(ncclComm* communicator, bool initialises, std::function<ncclResult_t()> call) {
  auto& list = initialises ? group.initialisations : group.calls;
  list.push_back({communicator, std::move(call)});
}

ncclResult_t run_call(ncclComm* communicator, std::function<ncclResult_t()> call) {
  if (!in_background(communicator)) return call();
  run_in_background(communicator, {std::move(call)});
  return ncclInProgress;
}

}  // namespace lockstep::emulation

using namespace lockstep::emulation;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) {
    return refuse(nullptr, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  }
  if (--group.depth != 0) return ncclSuccess;
  return end_group();
}

}  // extern "C"
