// Ranks as processes, and faults on request: what the product's supervision of NCCL is tested with.
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr int kOps = 3;

// Two forked processes run kOps all-reduces each and print what became of them. A rank whose
// communicator fails, or that waits for more than a second, aborts it.
void run_rank(int rank, const ncclUniqueId& id) {
  cudaSetDevice(rank);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  ncclCommInitRankConfig(&communicator, 2, id, rank, &config);
  const auto wait = [&] {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) ncclCommGetAsyncError(communicator, &state);
    return state;
  };
  ncclResult_t state = wait();
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  DeviceArray<float> x(std::vector<float>(4, 1.0f));
  bool timed_out = false;
  for (int op = 0; op < kOps && state == ncclSuccess && !timed_out; ++op) {
    state = ncclAllReduce(x.data(), x.data(), 4, ncclFloat, ncclSum, communicator, stream);
    if (state == ncclInProgress) state = wait();
    const auto start = std::chrono::steady_clock::now();
    while (state == ncclSuccess && !timed_out && cudaStreamQuery(stream) == cudaErrorNotReady) {
      ncclCommGetAsyncError(communicator, &state);
      timed_out = std::chrono::steady_clock::now() - start > std::chrono::seconds(1);
    }
    if (state == ncclSuccess) ncclCommGetAsyncError(communicator, &state);
  }
  if (state != ncclSuccess || timed_out) ncclCommAbort(communicator);
  cudaStreamSynchronize(stream);
  std::printf("rank %d: %s%s\n", rank, ncclGetErrorString(state), timed_out ? ", timed out" : "");
  if (state == ncclSuccess && !timed_out) std::printf("rank %d has %g\n", rank, x.to_host()[0]);
  std::fflush(stdout);
  _exit(0);
}

std::string run_two(const char* fault, const char* in_progress = "0",
                    const char* peer_death = "hang") {
  setenv("LOCKSTEP_EMU_NCCL_FAULT", fault, 1);
  setenv("LOCKSTEP_EMU_NCCL_IN_PROGRESS", in_progress, 1);
  setenv("LOCKSTEP_EMU_NCCL_PEER_DEATH", peer_death, 1);
  return run_case_alone("two processes").output;
}

}  // namespace

TEST_CASE("two processes" * doctest::skip()) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  pid_t children[2];
  for (int rank = 0; rank < 2; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) run_rank(rank, id);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 0) std::printf("one rank exited with %d\n", WEXITSTATUS(status));
  }
}

TEST_CASE("processes reduce together") {
  for (const char* in_progress : {"0", "1"}) {
    const std::string output = run_two("", in_progress);
    INFO(output);
    CHECK(contains(output, "rank 0 has 8"));
    CHECK(contains(output, "rank 1 has 8"));
  }
}

TEST_CASE("a call that fails at once") {
  const std::string output = run_two("rank=1 op=1 how=return:3");
  INFO(output);
  CHECK(contains(output, "rank 1: internal error"));
  CHECK(contains(output, "rank 0: no error, timed out"));
}

TEST_CASE("an error that comes later") {
  const std::string output = run_two("rank=0 op=2 how=async:6");
  INFO(output);
  CHECK(contains(output, "rank 0: remote process exited or there was a network error"));
  CHECK(contains(output, "rank 1: no error, timed out"));
}

TEST_CASE("a rank that hangs can be given up by both") {
  const std::string output = run_two("rank=0 op=1 how=hang");
  INFO(output);
  CHECK(contains(output, "rank 0: no error, timed out"));
  CHECK(contains(output, "rank 1: no error, timed out"));
}

TEST_CASE("a late rank changes nothing") {
  const std::string output = run_two("rank=1 op=0 how=delay:50");
  INFO(output);
  CHECK(contains(output, "rank 0 has 8"));
}

TEST_CASE("a rank that dies is noticed where the network would notice it") {
  const std::string output = run_two("rank=1 op=1 how=die", "0", "error");
  INFO(output);
  CHECK(contains(output, "one rank exited with 9"));
  CHECK(contains(output, "rank 0: remote process exited or there was a network error"));
}
