// One rank of an emulated NCCL communicator.
#pragma once

#include <nccl.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "tests/emulation/nccl/segment.h"

struct ncclComm {
  int rank = 0;
  int ranks = 0;
  int device = 0;
  bool blocking = true;
  std::atomic<lockstep::emulation::Segment*> joined{nullptr};  ///< set by the initialisation
  uint64_t next_sequence = 0;
  std::atomic<ncclResult_t> state{ncclSuccess};  ///< what ncclCommGetAsyncError says
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};  ///< operations enqueued and not finished
  std::thread background;       ///< a non-blocking initialisation or group
  bool told_of_death = false;

  /// Waits until all ranks are here. False when the communicator was aborted or has failed.
  bool meet(const char* what);
  /// The first failure stays.
  void fail(ncclResult_t result, const std::string& why);
  /// Null until the rank has joined.
  lockstep::emulation::Segment* segment() const { return joined; }
  bool is_broken() const { return aborted || (segment() != nullptr && segment()->failed != 0); }
  void set_last_error(const std::string& why);
  const char* last_error();

 private:
  std::mutex mutex_;
  std::string last_error_;
};

namespace lockstep::emulation {

/// A failure on request: LOCKSTEP_EMU_NCCL_FAULT="rank=1 op=3 how=hang" and the like.
struct Fault {
  int rank = -1;
  long op = -1;      ///< counts the rank's collectives from 0
  std::string how;   ///< return, async, hang, delay or die
  int argument = 0;  ///< an ncclResult_t, or milliseconds
};
const Fault& requested_fault();

/// Reports a misuse on stderr, as NCCL_DEBUG=WARN would, and returns the result.
ncclResult_t refuse(ncclComm* communicator, ncclResult_t result, const std::string& why);

/// Bytes of one element, or 0 for a type that is not emulated.
size_t size_of(ncclDataType_t type);

/// Reduces elements [first, first + n) of the ranks' slots, of a call over `total` elements, into
/// `out`: in the order of a ring, rounded to the type at every hop, the same on every rank.
void reduce_slots(const ncclComm& communicator, ncclDataType_t type, ncclRedOp_t op, size_t first,
                  size_t n, size_t total, void* out);

/// Checks a call and enqueues it, or keeps it for the end of the group.
ncclResult_t start_collective(ncclComm* communicator, Call call, const void* send, void* receive,
                              cudaStream_t stream);

/// Joins the ranks of an id; blocks until all are there.
ncclResult_t join(ncclComm& communicator, const ncclUniqueId& id);

}  // namespace lockstep::emulation
