// The emulated NCCL: results of every collective, groups, non-blocking communicators, and what
// happens when ranks disagree, die or give up. Ranks are threads here, each with a device, and
// processes at the end.
#include <cuda_bf16.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

// Before the first call of the emulator reads it.
const int four_devices = setenv("LOCKSTEP_EMU_DEVICES", "4", 1);

struct Rank {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0;
  int ranks = 0;
};

// Runs body as each of the ranks in a thread of its own, with a blocking communicator.
void with_ranks(int ranks, const std::function<void(const Rank&)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::thread> threads;
  std::atomic<int> joined{0};
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      cudaSetDevice(r);
      Rank self{nullptr, nullptr, r, ranks};
      if (ncclCommInitRank(&self.communicator, ranks, id, r) != ncclSuccess) return;
      ++joined;
      cudaStreamCreateWithFlags(&self.stream, cudaStreamNonBlocking);
      body(self);
      cudaStreamSynchronize(self.stream);
      ncclCommDestroy(self.communicator);
      cudaStreamDestroy(self.stream);
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(joined == ranks);
}

template <typename T>
ncclDataType_t type_of();
template <>
ncclDataType_t type_of<float>() {
  return ncclFloat32;
}
template <>
ncclDataType_t type_of<double>() {
  return ncclFloat64;
}
template <>
ncclDataType_t type_of<int64_t>() {
  return ncclInt64;
}
template <>
ncclDataType_t type_of<__half>() {
  return ncclFloat16;
}
template <>
ncclDataType_t type_of<__nv_bfloat16>() {
  return ncclBfloat16;
}

// Small integers, so that every type holds every result exactly.
template <typename T>
T value_of(int rank, size_t i) {
  return T(static_cast<float>((i * 7 + static_cast<size_t>(rank) * 3) % 5 + 1));
}
template <typename T>
std::vector<T> values_of(int rank, size_t n) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = value_of<T>(rank, i);
  return values;
}
template <typename T>
float as_float(T value) {
  return static_cast<float>(value);
}

template <typename T>
void check_all_reduce(size_t n) {
  with_ranks(4, [n](const Rank& self) {
    for (ncclRedOp_t op : {ncclSum, ncclMax, ncclMin, ncclAvg}) {
      DeviceArray<T> send(values_of<T>(self.rank, n)), receive(n);
      ncclAllReduce(send.data(), receive.data(), n, type_of<T>(), op, self.communicator,
                    self.stream);
      // In place, too; both are the same on all ranks.
      ncclAllReduce(send.data(), send.data(), n, type_of<T>(), op, self.communicator, self.stream);
      cudaStreamSynchronize(self.stream);
      const auto got = receive.to_host(), in_place = send.to_host();
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) {
        float expected = as_float(value_of<T>(0, i));
        for (int r = 1; r < self.ranks; ++r) {
          const float other = as_float(value_of<T>(r, i));
          if (op == ncclMax) expected = std::max(expected, other);
          if (op == ncclMin) expected = std::min(expected, other);
          if (op == ncclSum || op == ncclAvg) expected += other;
        }
        if (op == ncclAvg) {  // a quarter of an integer below 32: exact but for integers
          expected = std::is_integral_v<T> ? std::floor(expected / 4) : expected / 4;
        }
        wrong += as_float(got[i]) != expected || as_float(in_place[i]) != expected;
      }
      CHECK(wrong == 0);
    }
  });
}

}  // namespace

TEST_CASE("all-reduce of every type, within a slot and across several") {
  for (size_t n : {size_t{1}, size_t{3}, size_t{70000}}) {
    check_all_reduce<float>(n);
    check_all_reduce<double>(n);
    check_all_reduce<int64_t>(n);
    check_all_reduce<__half>(n);
    check_all_reduce<__nv_bfloat16>(n);
  }
}

TEST_CASE("broadcast, reduce, all-gather and reduce-scatter") {
  const size_t n = 40000;  // a gather of four does not fit in a slot
  with_ranks(4, [n](const Rank& self) {
    const auto ranks = static_cast<size_t>(self.ranks), me = static_cast<size_t>(self.rank);
    DeviceArray<float> mine(values_of<float>(self.rank, n)), out(n), all(n * ranks), part(n);
    ncclBroadcast(mine.data(), out.data(), n, ncclFloat, 2, self.communicator, self.stream);
    ncclAllGather(mine.data(), all.data(), n, ncclFloat, self.communicator, self.stream);
    cudaStreamSynchronize(self.stream);
    CHECK(out.to_host() == values_of<float>(2, n));
    const auto gathered = all.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < gathered.size(); ++i) {
      wrong += gathered[i] != value_of<float>(static_cast<int>(i / n), i % n);
    }
    CHECK(wrong == 0);
    // `all` is the same everywhere, so a sum is four times it.
    ncclReduceScatter(all.data(), part.data(), n, ncclFloat, ncclSum, self.communicator,
                      self.stream);
    ncclReduce(mine.data(), out.data(), n, ncclFloat, ncclMax, 1, self.communicator, self.stream);
    cudaStreamSynchronize(self.stream);
    const auto scattered = part.to_host(), reduced = out.to_host();
    for (size_t i = 0; i < n; ++i) {
      wrong += scattered[i] != 4 * gathered[me * n + i];
      float greatest = 0;
      for (int r = 0; r < 4; ++r) greatest = std::max(greatest, value_of<float>(r, i));
      // Only the root receives; the others keep what the broadcast left.
      wrong += reduced[i] != (self.rank == 1 ? greatest : value_of<float>(2, i));
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("one thread drives several devices in groups") {
  ncclComm_t communicators[2];
  REQUIRE(ncclCommInitAll(communicators, 2, nullptr) == ncclSuccess);
  cudaStream_t streams[2];
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
  for (int r = 0; r < 2; ++r) {
    cudaSetDevice(r);
    cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking);
    arrays.push_back(std::make_unique<DeviceArray<float>>(values_of<float>(r, 10)));
  }
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t first : {0u, 5u}) {  // two collectives a communicator
      float* data = arrays[r]->data() + first;
      CHECK(ncclAllReduce(data, data, 5, ncclFloat, ncclSum, communicators[r], streams[r]) ==
            ncclSuccess);
    }
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    cudaSetDevice(r);
    cudaStreamSynchronize(streams[r]);
    const auto got = arrays[static_cast<size_t>(r)]->to_host();
    for (size_t i = 0; i < 10; ++i) {
      CHECK(got[i] == value_of<float>(0, i) + value_of<float>(1, i));
    }
  }
  for (int r = 0; r < 2; ++r) ncclCommDestroy(communicators[r]);
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  cudaSetDevice(0);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("a non-blocking communicator waits for the others, and can be given up") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  CHECK(ncclCommInitRankConfig(&communicator, 2, id, 0, &config) == ncclInProgress);
  ncclResult_t state = ncclSuccess;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(ncclCommGetAsyncError(communicator, &state) == ncclSuccess);
    CHECK(state == ncclInProgress);
  }
  CHECK(ncclCommAbort(communicator) == ncclSuccess);  // returns, though the other never came
}

TEST_CASE("what NCCL refuses") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t communicator = nullptr;
  CHECK(ncclCommInitRank(&communicator, 2, id, 2) == ncclInvalidArgument);
  ncclConfig_t config{};
  CHECK(ncclCommInitRankConfig(&communicator, 1, id, 0, &config) == ncclInvalidArgument);
  ncclUniqueId unknown{};
  CHECK(ncclCommInitRank(&communicator, 1, unknown, 0) == ncclSystemError);
  ncclCommDestroy(communicator);
  with_ranks(1, [](const Rank& self) {
    DeviceArray<float> x(values_of<float>(0, 8));
    CHECK(ncclAllReduce(x.data(), x.data() + 2, 4, ncclFloat, ncclSum, self.communicator,
                        self.stream) == ncclInvalidArgument);  // buffers overlap
    CHECK(ncclBroadcast(x.data(), x.data(), 4, ncclFloat, 1, self.communicator, self.stream) ==
          ncclInvalidArgument);  // no such root
    CHECK(ncclAllReduce(x.data(), x.data(), 4, ncclNumTypes, ncclSum, self.communicator,
                        self.stream) == ncclInvalidArgument);
  });
}

TEST_CASE("two ranks on one device are refused") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclResult_t results[2];
  ncclComm_t communicators[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] { results[r] = ncclCommInitRank(&communicators[r], 2, id, r); });
  }
  for (auto& thread : threads) thread.join();
  for (int r = 0; r < 2; ++r) {
    CHECK(results[r] == ncclInvalidUsage);
    CHECK(contains(ncclGetLastError(communicators[r]), "Duplicate GPU detected"));
    ncclCommDestroy(communicators[r]);
  }
}

TEST_CASE("ranks that disagree are told, where NCCL would hang") {
  Reports reports;
  with_ranks(2, [](const Rank& self) {
    DeviceArray<float> x(values_of<float>(self.rank, 8));
    const size_t n = self.rank == 0 ? 8 : 7;
    ncclAllReduce(x.data(), x.data(), n, ncclFloat, ncclSum, self.communicator, self.stream);
    cudaStreamSynchronize(self.stream);
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(self.communicator, &state);
    CHECK(state != ncclSuccess);
  });
  CHECK_REPORTED(reports, "ranks disagree: ");
}

TEST_CASE("buffers that are no memory of the device") {
  Reports reports;
  with_ranks(1, [](const Rank& self) {
    DeviceArray<float> x(values_of<float>(0, 8));
    ncclAllReduce(x.data(), x.data(), 9, ncclFloat, ncclSum, self.communicator, self.stream);
  });
  CHECK_REPORTED(reports, "sendbuff of 36 bytes is byte 0 of the 32-byte allocation");
}
