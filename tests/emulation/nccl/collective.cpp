// The collectives: checked when they are called, carried out in stream order, chunk by chunk
// through the slots of the segment.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/emulation/check/check.h"
#include "tests/emulation/executor/executor.h"
#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/nccl/group.h"
#include "tests/emulation/runtime/counters.h"
#include "tests/emulation/runtime/memory.h"
#include "tests/emulation/runtime/streams.h"

namespace lockstep::emulation {
namespace {

const char* name_of(Collective kind) {
  constexpr const char* kNames[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                    "ncclReduceScatter"};
  return kNames[static_cast<int>(kind)];
}

std::string to_string(const Call& call) {
  return "#" + std::to_string(call.sequence) + " " + name_of(call.kind) + "(count " +
         std::to_string(call.count) + ", type " + std::to_string(call.type) + ", op " +
         std::to_string(call.op) + ", root " + std::to_string(call.root) + ")";
}

/// One rank's part of a call.
struct Part {
  ncclComm* communicator;
  Call call;
  const char* send;
  char* receive;

  bool is_root() const { return communicator->rank == call.root; }
  bool sends() const { return call.kind != Collective::Broadcast || is_root(); }
  bool receives() const { return call.kind != Collective::Reduce || is_root(); }
  size_t element() const { return size_of(static_cast<ncclDataType_t>(call.type)); }
  size_t ranks() const { return static_cast<size_t>(communicator->ranks); }
  size_t send_count() const {
    return call.count * (call.kind == Collective::ReduceScatter ? ranks() : 1);
  }
  size_t receive_count() const {
    return call.count * (call.kind == Collective::AllGather ? ranks() : 1);
  }
  size_t send_bytes() const { return send_count() * element(); }
  size_t receive_bytes() const { return receive_count() * element(); }
};

// True when the requested fault takes the place of this operation.
bool inject_fault(const Part& part) {
  const Fault& fault = requested_fault();
  ncclComm& communicator = *part.communicator;
  if (fault.rank != communicator.rank || fault.op != static_cast<long>(part.call.sequence)) {
    return false;
  }
  if (fault.how == "die") _exit(9);
  if (fault.how == "async") {
    communicator.fail(static_cast<ncclResult_t>(fault.argument), "a fault was requested");
    return true;
  }
  if (fault.how == "delay") {
    std::this_thread::sleep_for(std::chrono::milliseconds(fault.argument));
  }
  if (fault.how != "hang") return false;
  while (!communicator.aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return true;
}

void check_buffers(const Part& part) {
  std::lock_guard lock(kernel_mutex());
  if (part.sends()) check_range(part.send, part.send_bytes(), RangeAccess::ReadInitialised);
  if (part.receives()) check_range(part.receive, part.receive_bytes(), RangeAccess::Write);
}

// Real NCCL hangs or corrupts memory where ranks disagree; here both sides say so.
bool ranks_agree(const Part& part) {
  ncclComm& communicator = *part.communicator;
  Segment& segment = *communicator.segment();
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    if (segment.peers[rank].call == part.call) continue;
    const std::string difference = "rank " + std::to_string(communicator.rank) + " is in " +
                                   to_string(part.call) + ", rank " + std::to_string(rank) +
                                   " in " + to_string(segment.peers[rank].call);
    communicator.fail(ncclInvalidUsage, difference);
    report("nccl", "ranks disagree: " + difference, cudaSuccess);
    segment.failed = 1;
    wake_all(segment);
    return false;
  }
  return true;
}

// Takes from the slots what belongs to this rank; they hold elements [first, first + n).
void take(const Part& part, size_t first, size_t n) {
  const ncclComm& communicator = *part.communicator;
  const Segment& segment = *communicator.segment();
  const auto type = static_cast<ncclDataType_t>(part.call.type);
  const auto op = static_cast<ncclRedOp_t>(part.call.op);
  const size_t element = part.element();
  char* out = part.receive + first * element;
  switch (part.call.kind) {
    case Collective::AllReduce:
    case Collective::Reduce:
      if (part.receives()) reduce_slots(communicator, type, op, first, n, part.call.count, out);
      return;
    case Collective::Broadcast:
      std::memcpy(out, segment.slots[part.call.root], n * element);
      return;
    case Collective::AllGather:
      for (size_t rank = 0; rank < part.ranks(); ++rank) {
        std::memcpy(out + rank * part.call.count * element, segment.slots[rank], n * element);
      }
      return;
    case Collective::ReduceScatter: {
      const size_t begin = static_cast<size_t>(communicator.rank) * part.call.count;
      const size_t from = std::max(first, begin);
      const size_t to = std::min(first + n, begin + part.call.count);
      if (from >= to) return;
      std::vector<char> reduced(n * element);
      reduce_slots(communicator, type, op, first, n, part.send_count(), reduced.data());
      std::memcpy(part.receive + (from - begin) * element,
                  reduced.data() + (from - first) * element, (to - from) * element);
    }
  }
}

// On the thread of the stream.
void run_collective(const Part& part) {
  ncclComm& communicator = *part.communicator;
  const char* name = name_of(part.call.kind);
  if (communicator.is_broken()) return;
  if (const ncclResult_t state = communicator.state;
      state != ncclSuccess && state != ncclInProgress) {
    return;
  }
  if (inject_fault(part)) return;
  DeviceAccess access(communicator.device);
  check_buffers(part);
  Segment& segment = *communicator.segment();
  segment.peers[communicator.rank].call = part.call;
  if (!communicator.meet(name) || !ranks_agree(part) || !communicator.meet(name)) return;
  const size_t step = kSlotBytes / part.element();
  for (size_t first = 0; first < part.send_count(); first += step) {
    const size_t n = std::min(step, part.send_count() - first);
    if (part.sends()) {
      std::memcpy(segment.slots[communicator.rank], part.send + first * part.element(),
                  n * part.element());
    }
    if (!communicator.meet(name)) return;
    take(part, first, n);
    if (!communicator.meet(name)) return;
  }
}

bool check_buffer(const Part& part, const void* pointer, size_t nbytes, const char* argument) {
  if (nbytes == 0) return true;
  const Span span = look_up(pointer, nbytes);
  const int device = part.communicator->device;
  if (span.valid && span.on_device && span.device == device) return true;
  report("nccl",
         std::string(name_of(part.call.kind)) + " on rank " +
             std::to_string(part.communicator->rank) + ": " + argument + " of " +
             std::to_string(nbytes) + " bytes is " + describe(pointer) +
             ", which is no such piece of memory of device " + std::to_string(device),
         cudaErrorIllegalAddress);
  return false;
}

// Buffers may be the same in the one way that NCCL calls in place, and must not overlap otherwise.
bool overlaps_wrongly(const Part& part) {
  const size_t sent = part.send_bytes(), received = part.receive_bytes();
  if (!part.sends() || !part.receives() || sent == 0 || received == 0) return false;
  const auto rank = static_cast<size_t>(part.communicator->rank);
  bool in_place = part.send == part.receive;
  if (part.call.kind == Collective::AllGather) in_place = part.send == part.receive + rank * sent;
  if (part.call.kind == Collective::ReduceScatter) {
    in_place = part.receive == part.send + rank * received;
  }
  return !in_place && part.send < part.receive + received && part.receive < part.send + sent;
}

ncclResult_t check_call(ncclComm* communicator, const Call& call, cudaStream_t stream) {
  const std::string name = name_of(call.kind);
  if (communicator == nullptr) {
    return refuse(nullptr, ncclInvalidArgument, name + ": the communicator is null");
  }
  if (communicator->aborted) return ncclInvalidUsage;
  if (const ncclResult_t state = communicator->state; state == ncclInProgress) {
    return refuse(communicator, ncclInvalidUsage,
                  name + ": the communicator is still busy with its last call");
  } else if (state != ncclSuccess) {
    return state;
  }
  if (communicator->segment() == nullptr) {
    return refuse(communicator, ncclInvalidUsage, name + ": the communicator has not joined");
  }
  if (!is_valid_stream(stream)) {
    return refuse(communicator, ncclInvalidArgument, name + ": the stream is not valid");
  }
  if (size_of(static_cast<ncclDataType_t>(call.type)) == 0 || call.op < 0 ||
      call.op >= ncclNumOps || call.root < 0 || call.root >= communicator->ranks) {
    return refuse(communicator, ncclInvalidArgument, name + ": bad type, operation or root");
  }
  return ncclSuccess;
}

ncclResult_t enqueue_part(const Part& part, cudaStream_t stream) {
  ncclComm* communicator = part.communicator;
  const int before = std::exchange(current_device, communicator->device);
  const bool same_device = resolve_stream(stream)->device == communicator->device;
  if (same_device) {
    ++communicator->running;
    count(&Counters::library_calls);
    count(&Counters::library_bytes_read, static_cast<int64_t>(part.send_bytes()));
    count(&Counters::library_bytes_written, static_cast<int64_t>(part.receive_bytes()));
    enqueue(stream, name_of(part.call.kind), [part] {
      run_collective(part);
      --part.communicator->running;
    });
  }
  current_device = before;
  if (same_device) return ncclSuccess;
  return refuse(communicator, ncclInvalidArgument,
                std::string(name_of(part.call.kind)) +
                    ": the stream belongs to another device than the communicator");
}

}  // namespace

ncclResult_t start_collective(ncclComm* communicator, Call call, const void* send, void* receive,
                              cudaStream_t stream) {
  if (const ncclResult_t r = check_call(communicator, call, stream); r != ncclSuccess) return r;
  Part part{communicator, call, static_cast<const char*>(send), static_cast<char*>(receive)};
  if ((part.sends() && !check_buffer(part, send, part.send_bytes(), "sendbuff")) ||
      (part.receives() && !check_buffer(part, receive, part.receive_bytes(), "recvbuff"))) {
    return ncclSuccess;  // a fault that surfaces later
  }
  if (overlaps_wrongly(part)) {
    return refuse(communicator, ncclInvalidArgument,
                  std::string(name_of(call.kind)) + ": buffers overlap without being in place");
  }
  part.call.sequence = communicator->next_sequence++;
  const Fault& fault = requested_fault();
  if (fault.how == "return" && fault.rank == communicator->rank &&
      fault.op == static_cast<long>(part.call.sequence)) {
    return refuse(communicator, static_cast<ncclResult_t>(fault.argument), "a fault was requested");
  }
  auto run = [part, stream] { return enqueue_part(part, stream); };
  if (!in_group()) return run_call(communicator, run);
  add_to_group(communicator, false, run);
  return ncclSuccess;
}

}  // namespace lockstep::emulation
