// Meeting, failing and joining.
#include "tests/emulation/nccl/communicator.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/emulation/runtime/settings.h"
#include "tests/emulation/runtime/state.h"

namespace lockstep::emulation {
namespace {

constexpr double kSuspicionMs = 50;

// NCCL over NVLink or shared memory does not notice a dead peer and waits for ever; over sockets it
// fails. LOCKSTEP_EMU_NCCL_PEER_DEATH=error chooses the second.
bool death_is_error() { return setting_word("LOCKSTEP_EMU_NCCL_PEER_DEATH") == "error"; }

int find_dead_rank(const ncclComm& communicator) {
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    const int process = communicator.segment()->peers[rank].process;
    if (process > 0 && process != getpid() && is_dead(process)) return rank;
  }
  return -1;
}

// Duplicates are refused, as NCCL does on one host.
ncclResult_t check_devices(ncclComm& communicator) {
  if (setting("LOCKSTEP_EMU_NCCL_ALLOW_DUPLICATES", 0) != 0) return ncclSuccess;
  const Peer* peers = communicator.segment()->peers;
  for (int i = 0; i < communicator.ranks; ++i) {
    for (int j = 0; j < i; ++j) {
      if (peers[i].device != peers[j].device) continue;
      return refuse(&communicator, ncclInvalidUsage,
                    "Duplicate GPU detected : rank " + std::to_string(j) + " and rank " +
                        std::to_string(i) + " both on CUDA device " +
                        std::to_string(peers[i].device));
    }
  }
  return ncclSuccess;
}

}  // namespace

const Fault& requested_fault() {
  static const Fault fault = [] {
    Fault f;
    char how[16] = "";
    const std::string text = setting_word("LOCKSTEP_EMU_NCCL_FAULT");
    const int fields = std::sscanf(text.c_str(), "rank=%d op=%ld how=%15[a-z]:%d", &f.rank, &f.op,
                                   how, &f.argument);
    if (fields >= 3) {
      f.how = how;
    } else {
      f.rank = -1;
    }
    return f;
  }();
  return fault;
}

ncclResult_t refuse(ncclComm* communicator, ncclResult_t result, const std::string& why) {
  if (communicator != nullptr) communicator->set_last_error(why);
  std::fprintf(stderr, "emulation nccl: %s\n", why.c_str());
  return result;
}

ncclResult_t join(ncclComm& communicator, const ncclUniqueId& id) {
  Segment* segment = open_segment(id);
  if (segment == nullptr) {
    return refuse(&communicator, ncclSystemError,
                  "the unique id is not known here, or its process has ended");
  }
  communicator.joined = segment;
  int expected = 0;
  if (!segment->ranks.compare_exchange_strong(expected, communicator.ranks) &&
      expected != communicator.ranks) {
    segment->failed = 1;
    return refuse(&communicator, ncclInvalidArgument,
                  "ranks disagree about their number: " + std::to_string(expected) + " and " +
                      std::to_string(communicator.ranks));
  }
  Peer& self = segment->peers[communicator.rank];
  if (self.taken.exchange(1) != 0) {
    segment->failed = 1;
    return refuse(&communicator, ncclInvalidUsage,
                  "rank " + std::to_string(communicator.rank) + " joined twice");
  }
  self.process = getpid();
  self.device = runtime().devices[communicator.device].physical;
  if (!communicator.meet("ncclCommInitRank")) {
    if (communicator.aborted) return ncclInternalError;
    return refuse(&communicator, ncclRemoteError, "another rank could not join");
  }
  return check_devices(communicator);
}

}  // namespace lockstep::emulation

using namespace lockstep::emulation;

bool ncclComm::meet(const char* what) {
  Segment& shared = *segment();
  const uint32_t generation = shared.generation;
  if (static_cast<int>(++shared.arrived) == ranks) {
    shared.arrived = 0;
    ++shared.generation;
    wake_all(shared);
  }
  const double since_ms = now_ms();
  while (shared.generation == generation) {
    if (is_broken()) return false;
    wait_for_generation(shared, generation);
    if (now_ms() - since_ms < kSuspicionMs) continue;
    const int dead = find_dead_rank(*this);
    if (dead < 0) continue;
    const bool error = death_is_error();
    if (!told_of_death) {
      std::fprintf(stderr, "emulation nccl: rank %d waits in %s, but rank %d is dead%s\n", rank,
                   what, dead, error ? "" : "; as NCCL would, it waits for ever");
    }
    told_of_death = true;
    if (error) {
      fail(ncclRemoteError, "remote process exited or there was a network error");
      return false;
    }
  }
  return !is_broken();
}

void ncclComm::fail(ncclResult_t result, const std::string& why) {
  set_last_error(why);
  ncclResult_t fine = ncclSuccess;
  state.compare_exchange_strong(fine, result);
}

void ncclComm::set_last_error(const std::string& why) {
  std::lock_guard lock(mutex_);
  last_error_ = why;
}

const char* ncclComm::last_error() {
  std::lock_guard lock(mutex_);
  return last_error_.c_str();
}
