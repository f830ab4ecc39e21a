// What only the check build can see: bugs that leave no trace in today's results.
#include <cublas_v2.h>
#include <nccl.h>

#include <cstring>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::vector<float> ones() { return std::vector<float>(64, 1.0f); }

struct Streams {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  Streams() {
    LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    LOCKSTEP_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Streams() {
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }
  void b_waits_for_a() {
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event);
  }
};

void run_fill(float* x, cudaStream_t stream) { launch(fill, 1, 64, 0, stream, x, 64, 1.0f); }
void run_copy(const float* x, float* y, cudaStream_t stream) {
  launch(copy, 1, 64, 0, stream, x, y, 64);
}

struct Pinned {
  float* data = nullptr;
  Pinned() {
    LOCKSTEP_CUDA_CHECK(cudaMallocHost(&data, 256));
    for (int i = 0; i < 64; ++i) data[i] = static_cast<float>(i);
  }
  ~Pinned() { cudaFreeHost(data); }
};

}  // namespace

TEST_CASE("right kernels raise no report") {
  Reports reports;
  DeviceArray<float> x(ones());
  DeviceArray<__half> h(64);
  launch(exchange, 1, 64, 0, nullptr, x.data());
  launch(exchange_in_warp, 1, 64, 0, nullptr, x.data());
  launch(add_atomically, 4, 32, 0, nullptr, x.data());
  launch(fill_half, 1, 64, 0, nullptr, h.data(), 1.0f);  // two threads, one 4-byte word
  CHECK_CLEAN(reports);
}

TEST_CASE("racecheck in a block") {
  Reports reports;
  DeviceArray<float> x(ones());
  launch(exchange_without_barrier, 1, 64, 0, nullptr, x.data());
  std::string text = reports.text();
  INFO(text);
  CHECK(contains(text, "racecheck"));
  CHECK(contains(text, "of __shared__ lockstep::testing::exchange_without_barrier"));
  CHECK(contains(text, "buggy_kernels.cu:"));
  launch(scratch_used_again, 1, 64, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "racecheck");
  launch(exchange_after_shuffle, 1, 64, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "racecheck");
}

TEST_CASE("racecheck between blocks") {
  Reports reports;
  DeviceArray<float> x(ones());
  launch(adds_without_atomic, 4, 32, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "racecheck");
}

TEST_CASE("initcheck of shared and device memory") {
  Reports reports;
  DeviceArray<float> x(ones()), fresh(64);
  launch(reads_uninitialised_shared, 1, 64, 0, nullptr, x.data());
  CHECK_REPORTED(reports,
                 "of __shared__ "
                 "lockstep::testing::reads_uninitialised_shared");
  run_copy(fresh.data(), x.data(), nullptr);
  CHECK_REPORTED(reports, "initcheck: read of uninitialised byte");
  DeviceArray<float> never_written(64);
  never_written.to_host();
  CHECK_REPORTED(reports, "cudaMemcpy reads uninitialised byte 0");
  // A copy within the device passes holes on; only their use is reported.
  DeviceArray<float> also_fresh(64);
  cudaMemcpy(also_fresh.data(), never_written.data(), 256, cudaMemcpyDeviceToDevice);
  CHECK_CLEAN(reports);
  run_copy(also_fresh.data(), x.data(), nullptr);
  CHECK_REPORTED(reports, "initcheck");
}

TEST_CASE("memcheck: bounds of device and dynamic shared memory") {
  Reports reports;
  DeviceArray<float> x(ones());
  launch(off_by_one, 1, 32, 0, nullptr, x.data(), 64);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK_REPORTED(reports, "0 bytes past the end of the 256-byte allocation");
  launch(overruns_dynamic, 1, 64, 256, nullptr, x.data(), 64);
  CHECK_REPORTED(reports, "byte 256 of 256 bytes of dynamic shared memory");
  launch(misaligned_double, 1, 4, 0, nullptr, x.data() + 1);
  CHECK(cudaDeviceSynchronize() == cudaErrorMisalignedAddress);
  CHECK_REPORTED(reports, "misaligned");
}

TEST_CASE("memcheck: pointers that the launch cannot see") {
  Reports reports;
  DeviceArray<float> x(ones());
  std::vector<float> pageable(64);
  launch(through_struct, 1, 64, 0, nullptr, Pointers{pageable.data(), x.data()});
  CHECK_REPORTED(reports, "(pageable host memory) in device code");
  launch(reads_host_variable, 1, 1, 0, nullptr, x.data(),
         reinterpret_cast<uintptr_t>(pageable.data()));
  CHECK_REPORTED(reports, "read of");
  float* freed = nullptr;
  cudaMalloc(&freed, 256);
  cudaFree(freed);
  launch(through_struct, 1, 64, 0, nullptr, Pointers{x.data(), freed});
  CHECK_REPORTED(reports, "FREED 256-byte allocation");
}

TEST_CASE("memcheck: memory of a peer") {
  Reports reports;
  DeviceArray<float> x(ones());
  cudaSetDevice(1);
  DeviceArray<float> y(ones());
  cudaSetDevice(0);
  launch(through_struct, 1, 64, 0, nullptr, Pointers{x.data(), y.data()});
  CHECK_REPORTED(reports, "without peer access");
  LOCKSTEP_CUDA_CHECK(cudaDeviceEnablePeerAccess(1, 0));
  launch(through_struct, 1, 64, 0, nullptr, Pointers{x.data(), y.data()});
  CHECK_CLEAN(reports);
  LOCKSTEP_CUDA_CHECK(cudaDeviceDisablePeerAccess(1));
}

TEST_CASE("racecheck between streams: read after write and write after read") {
  Reports reports;
  Streams streams;
  DeviceArray<float> x(ones()), y(ones());
  run_fill(x.data(), streams.a);
  run_copy(x.data(), y.data(), streams.b);
  CHECK_REPORTED(reports, "racecheck");
  run_fill(x.data(), streams.a);
  streams.b_waits_for_a();
  run_copy(x.data(), y.data(), streams.b);
  CHECK_CLEAN(reports);
  run_copy(x.data(), y.data(), streams.b);
  run_fill(x.data(), streams.a);  // the next step overwrites what b may still read
  CHECK_REPORTED(reports, "racecheck");
  run_fill(x.data(), streams.a);
  cudaStreamSynchronize(streams.a);  // the host orders them, too
  run_copy(x.data(), y.data(), streams.b);
  CHECK_CLEAN(reports);
}

TEST_CASE("racecheck: copies and fills are operations like kernels") {
  Reports reports;
  Streams streams;
  DeviceArray<float> x(ones()), y(ones());
  cudaMemsetAsync(x.data(), 0, 256, streams.a);
  cudaMemcpyAsync(y.data(), x.data(), 256, cudaMemcpyDeviceToDevice, streams.b);
  CHECK_REPORTED(reports, "read by operation");
}

TEST_CASE("racecheck: the legacy default stream orders blocking streams") {
  Reports reports;
  DeviceArray<float> x(ones()), y(ones());
  cudaStream_t blocking;
  LOCKSTEP_CUDA_CHECK(cudaStreamCreate(&blocking));
  run_fill(x.data(), blocking);
  run_copy(x.data(), y.data(), nullptr);
  run_fill(x.data(), blocking);
  CHECK_CLEAN(reports);
  cudaStreamDestroy(blocking);
}

TEST_CASE("racecheck: stream-ordered memory belongs to its stream") {
  Reports reports;
  Streams streams;
  float* x = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaMallocAsync(&x, 256, streams.a));
  run_fill(x, streams.b);  // before the allocation, as far as b knows
  CHECK_REPORTED(reports, "cudaMallocAsync");
  run_fill(x, streams.b);
  cudaFreeAsync(x, streams.a);  // while b may still write
  const std::string text = reports.text();
  INFO(text);
  // Whichever came first today, it is found.
  const bool found = contains(text, "cudaFreeAsync") || contains(text, "FREED 256-byte");
  CHECK(found);
  LOCKSTEP_CUDA_CHECK(cudaMallocAsync(&x, 256, streams.a));
  streams.b_waits_for_a();
  run_fill(x, streams.b);
  cudaFreeAsync(x, streams.b);
  CHECK_CLEAN(reports);
}

TEST_CASE("racecheck between the host and a stream, on pinned memory") {
  Reports reports;
  Streams streams;
  Pinned pinned;
  DeviceArray<float> x(ones());
  cudaMemcpyAsync(x.data(), pinned.data, 256, cudaMemcpyHostToDevice, streams.a);
  cudaStreamSynchronize(streams.a);
  pinned.data[3] = 9;
  CHECK_CLEAN(reports);
  // Refilled while the copy may still read; that it is over by now does not matter.
  emulation::set_stream_policy(emulation::StreamPolicy::Eager);
  cudaMemcpyAsync(x.data(), pinned.data, 256, cudaMemcpyHostToDevice, streams.a);
  while (cudaStreamQuery(nullptr) != cudaSuccess) {
  }
  pinned.data[4] = 9;
  CHECK_REPORTED(reports, "write by the host");
  cudaMemcpyAsync(pinned.data, x.data(), 256, cudaMemcpyDeviceToHost, streams.a);
  volatile float early = pinned.data[7];
  (void)early;
  CHECK_REPORTED(reports, "by the host");
  cudaMemcpyAsync(pinned.data, x.data(), 256, cudaMemcpyDeviceToHost, streams.a);
  cudaEventRecord(streams.event, streams.a);
  cudaEventSynchronize(streams.event);
  early = pinned.data[7];
  CHECK_CLEAN(reports);
}

TEST_CASE("racecheck: a host function is part of its stream") {
  Reports reports;
  Streams streams;
  Pinned pinned;
  DeviceArray<float> x(ones());
  const auto refill = [](void* data) { static_cast<float*>(data)[0] = 1; };
  cudaMemcpyAsync(x.data(), pinned.data, 256, cudaMemcpyHostToDevice, streams.a);
  cudaLaunchHostFunc(streams.a, refill, pinned.data);
  CHECK_CLEAN(reports);
  cudaMemcpyAsync(x.data(), pinned.data, 256, cudaMemcpyHostToDevice, streams.a);
  cudaLaunchHostFunc(streams.b, refill, pinned.data);
  CHECK_REPORTED(reports, "cudaLaunchHostFunc");
}

TEST_CASE("memcheck: the host dereferences device memory") {
  DeviceArray<float> x(ones());
  Reports reports;
  run_fill(x.data(), nullptr);  // the memory is open while the kernel may run
  volatile float value = x.data()[3];
  (void)value;
  CHECK_REPORTED(reports, "HOST code touches byte 12 of the 256-byte allocation");
}

TEST_CASE("racecheck: a matrix product is an operation like a kernel") {
  Reports reports;
  Streams streams;
  cublasHandle_t handle;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  cublasSetStream(handle, streams.a);
  DeviceArray<float> x(std::vector<float>(16, 1.0f)), y(std::vector<float>(16, 1.0f));
  const float one = 1, zero = 0;
  const auto run = [&] {
    REQUIRE(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x.data(), CUDA_R_32F, 4,
                         x.data(), CUDA_R_32F, 4, &zero, y.data(), CUDA_R_32F, 4,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  };
  launch(fill, 1, 32, 0, streams.a, x.data(), 16, 1.0f);
  run();
  CHECK_CLEAN(reports);
  launch(fill, 1, 32, 0, streams.b, x.data(), 16, 1.0f);
  run();
  CHECK_REPORTED(reports, "read by operation");
  cublasDestroy(handle);
}

TEST_CASE("racecheck: a collective is an operation of its stream") {
  Reports reports;
  Streams streams;
  ncclComm_t communicator;
  REQUIRE(ncclCommInitAll(&communicator, 1, nullptr) == ncclSuccess);
  DeviceArray<float> x(ones());
  const auto all_reduce = [&] {
    ncclAllReduce(x.data(), x.data(), 64, ncclFloat, ncclSum, communicator, streams.b);
  };
  run_fill(x.data(), streams.a);
  streams.b_waits_for_a();
  all_reduce();
  CHECK_CLEAN(reports);
  run_fill(x.data(), streams.a);
  all_reduce();  // does not wait for the gradient
  CHECK_REPORTED(reports, "racecheck");
  all_reduce();
  run_fill(x.data(), streams.a);  // does not wait for the sum
  CHECK_REPORTED(reports, "racecheck");
  DeviceArray<float> fresh(64);
  ncclAllReduce(fresh.data(), x.data(), 64, ncclFloat, ncclSum, communicator, streams.b);
  CHECK_REPORTED(reports, "ncclAllReduce reads uninitialised byte 0");
  ncclCommDestroy(communicator);
}
