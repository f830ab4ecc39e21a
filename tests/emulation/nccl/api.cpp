// The part of NCCL's API that the product calls. What is missing here is a link error.
#include <chrono>
#include <memory>
#include <set>

#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/nccl/group.h"
#include "tests/emulation/runtime/state.h"

using namespace lockstep::emulation;

namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

// Communicators that were aborted are kept: queued operations may still point to them.
void keep(ncclComm* communicator) {
  static auto* kept = new std::set<ncclComm*>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  kept->insert(communicator);
}

void wait_until_idle(ncclComm* communicator) {
  while (communicator->running != 0 && !communicator->aborted) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void wait_for_background(ncclComm* communicator) {
  if (communicator->background.joinable()) communicator->background.join();
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  return create_segment(id) ? ncclSuccess
                            : refuse(nullptr, ncclSystemError, "no shared memory for an id");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ensure_initialised() != cudaSuccess) return ncclUnhandledCudaError;
  if (out == nullptr || ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    return refuse(nullptr, ncclInvalidArgument, "ncclCommInitRank: bad rank or number of ranks");
  }
  if (config != nullptr && config->magic != kConfigMagic) {
    return refuse(nullptr, ncclInvalidArgument, "ncclConfig_t without NCCL_CONFIG_INITIALIZER");
  }
  auto* communicator = new ncclComm;
  communicator->rank = rank;
  communicator->ranks = ranks;
  communicator->device = current_device;
  communicator->blocking = config == nullptr || config->blocking != 0;
  *out = communicator;
  if (!communicator->blocking) {
    communicator->state = ncclInProgress;
    communicator->background =
        std::thread([communicator, id] { communicator->state = join(*communicator, id); });
    return ncclInProgress;
  }
  auto initialise = [communicator, id] {
    const ncclResult_t result = join(*communicator, id);
    if (result != ncclSuccess) communicator->state = result;
    return result;
  };
  if (!in_group()) return initialise();
  add_to_group(communicator, true, initialise);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* out, int count, const int* devices) {
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) return result;
  const int before = current_device;
  ncclGroupStart();
  for (int i = 0; i < count; ++i) {
    current_device = devices != nullptr ? devices[i] : i;
    ncclCommInitRank(&out[i], count, id, i);
  }
  current_device = before;
  return ncclGroupEnd();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  if (communicator == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = communicator->state;
  const Segment* segment = communicator->segment();
  if (*error == ncclSuccess && segment != nullptr && segment->failed != 0) {
    *error = ncclRemoteError;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclInvalidArgument;
  communicator->aborted = true;
  if (communicator->segment() != nullptr) wake_all(*communicator->segment());
  wait_for_background(communicator);
  while (communicator->running != 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  keep(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclInvalidArgument;
  wait_for_background(communicator);
  wait_until_idle(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (const ncclResult_t result = ncclCommFinalize(communicator); result != ncclSuccess) {
    return result;
  }
  if (communicator->segment() != nullptr) close_segment(communicator->segment());
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  if (communicator == nullptr) return ncclInvalidArgument;
  *count = communicator->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  if (communicator == nullptr) return ncclInvalidArgument;
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  if (communicator == nullptr) return ncclInvalidArgument;
  *device = communicator->device;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t communicator) {
  return communicator != nullptr ? communicator->last_error() : "";
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return start_collective(communicator, {Collective::AllReduce, type, op, 0, count, 0}, send,
                          receive, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return start_collective(communicator, {Collective::Broadcast, type, 0, root, count, 0}, send,
                          receive, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  return start_collective(communicator, {Collective::Reduce, type, op, root, count, 0}, send,
                          receive, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return start_collective(communicator, {Collective::AllGather, type, 0, 0, count, 0}, send,
                          receive, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return start_collective(communicator, {Collective::ReduceScatter, type, op, 0, count, 0}, send,
                          receive, stream);
}

}  // extern "C"
