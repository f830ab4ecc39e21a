// Streams, events, copies and devices: results do not depend on the schedule, errors are those of
// CUDA, and asynchronous work is really asynchronous.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;
using emulation::StreamPolicy;

namespace {

constexpr int kN = 1000;
constexpr unsigned kBlocks = 4;
constexpr unsigned kThreads = 256;
constexpr size_t kBytes = kN * sizeof(float);

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream;
  LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event;
  LOCKSTEP_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

std::vector<float> constant(float value) { return std::vector<float>(kN, value); }

void run_axpy(const float* x, float* y, cudaStream_t stream) {
  launch(axpy, kBlocks, kThreads, 0, stream, 1.0f, x, y, kN);
}

template <typename F>
void under_each_policy(F body) {
  for (StreamPolicy policy : {StreamPolicy::Eager, StreamPolicy::Lazy, StreamPolicy::Jitter}) {
    CAPTURE(static_cast<int>(policy));
    emulation::set_stream_policy(policy, 30);
    body();
  }
  emulation::set_stream_policy(StreamPolicy::Eager);
}

}  // namespace

TEST_CASE("two streams hand values to each other through events") {
  under_each_policy([] {
    cudaStream_t a = make_stream(), b = make_stream();
    cudaEvent_t event = make_event();
    DeviceArray<float> x(constant(1)), y(constant(0));
    double expected_x = 1, expected_y = 0;
    for (int turn = 0; turn < 15; ++turn) {  // the result depends on every one of the edges
      run_axpy(x.data(), y.data(), a);
      cudaEventRecord(event, a);
      cudaStreamWaitEvent(b, event);
      run_axpy(y.data(), x.data(), b);
      cudaEventRecord(event, b);
      cudaStreamWaitEvent(a, event);
      expected_y += expected_x;
      expected_x += expected_y;
    }
    LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(b));
    CHECK(x.to_host() == constant(static_cast<float>(expected_x)));
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  });
}

TEST_CASE("work is asynchronous until somebody waits") {
  under_each_policy([] {
    cudaStream_t stream = make_stream();
    std::atomic<int> ran{0};
    const auto slow = [](void* flag) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      *static_cast<std::atomic<int>*>(flag) = 1;
    };
    LOCKSTEP_CUDA_CHECK(cudaLaunchHostFunc(stream, slow, &ran));
    CHECK(ran == 0);
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(ran == 1);
    CHECK(cudaStreamQuery(stream) == cudaSuccess);
    cudaStreamDestroy(stream);
  });
}

TEST_CASE("a host function in a stream may not call CUDA") {
  static std::atomic<int> result{0};
  const auto call = [](void*) { result = cudaDeviceSynchronize(); };
  LOCKSTEP_CUDA_CHECK(cudaLaunchHostFunc(nullptr, call, nullptr));
  LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  CHECK(result == cudaErrorNotPermitted);
}

TEST_CASE("under the lazy policy a forgotten synchronisation shows") {
  emulation::set_stream_policy(StreamPolicy::Lazy, 200);
  DeviceArray<float> x(constant(5));
  float* pinned = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaMallocHost(&pinned, kBytes));
  std::memset(pinned, 0, kBytes);
  cudaStream_t stream = make_stream();
  // The check build would report the early look at pinned memory as the race that it is.
  Reports reports;
  cudaMemcpyAsync(pinned, x.data(), kBytes, cudaMemcpyDeviceToHost, stream);
  CHECK(pinned[7] == 0.0f);
  cudaStreamSynchronize(stream);
  CHECK(pinned[7] == 5.0f);
  reports.clear();
  emulation::set_stream_policy(StreamPolicy::Eager);
  cudaFreeHost(pinned);
  cudaStreamDestroy(stream);
}

TEST_CASE("events: never recorded, timed, and of another device") {
  cudaEvent_t plain = make_event(), timed;
  LOCKSTEP_CUDA_CHECK(cudaEventCreate(&timed));
  CHECK(cudaEventQuery(plain) == cudaSuccess);
  CHECK(cudaEventSynchronize(plain) == cudaSuccess);
  float elapsed_ms = 0;
  CHECK(cudaEventElapsedTime(&elapsed_ms, plain, timed) == cudaErrorInvalidResourceHandle);
  cudaEvent_t end;
  LOCKSTEP_CUDA_CHECK(cudaEventCreate(&end));
  cudaGetLastError();
  LOCKSTEP_CUDA_CHECK(cudaEventRecord(timed));
  LOCKSTEP_CUDA_CHECK(cudaEventRecord(end));
  LOCKSTEP_CUDA_CHECK(cudaEventSynchronize(end));
  LOCKSTEP_CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, timed, end));
  CHECK(elapsed_ms >= 0.0f);
  cudaSetDevice(1);
  CHECK(cudaEventRecord(plain, nullptr) == cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
  cudaGetLastError();
  for (cudaEvent_t event : {plain, timed, end}) cudaEventDestroy(event);
}

TEST_CASE("the legacy default stream is ordered with blocking streams") {
  under_each_policy([] {
    cudaStream_t blocking = make_stream(cudaStreamDefault);
    DeviceArray<float> x(constant(1)), y(constant(2));
    cudaMemsetAsync(x.data(), 0, kBytes, blocking);
    run_axpy(y.data(), x.data(), nullptr);
    cudaMemcpyAsync(y.data(), x.data(), kBytes, cudaMemcpyDeviceToDevice, blocking);
    cudaStreamSynchronize(blocking);
    CHECK(y.to_host() == constant(2));
    cudaStreamDestroy(blocking);
  });
}

TEST_CASE("a pageable source may change once the call has returned") {
  under_each_policy([] {
    cudaStream_t stream = make_stream();
    DeviceArray<float> x(kN);
    std::vector<float> source = constant(7);
    cudaMemcpyAsync(x.data(), source.data(), kBytes, cudaMemcpyHostToDevice, stream);
    source.assign(kN, 8);
    cudaStreamSynchronize(stream);
    CHECK(x.to_host() == constant(7));
    // A pageable target makes the call wait.
    cudaMemcpyAsync(source.data(), x.data(), kBytes, cudaMemcpyDeviceToHost, stream);
    CHECK(source == constant(7));
    cudaStreamDestroy(stream);
  });
}

TEST_CASE("host threads share a device, each with its stream") {
  std::vector<std::thread> threads;
  std::array<std::atomic<bool>, 4> right{};
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&right, t] {
      cudaStream_t stream = make_stream();
      const auto value = static_cast<float>(t);
      DeviceArray<float> x(constant(value)), y(constant(0));
      for (int i = 0; i < 20; ++i) run_axpy(x.data(), y.data(), stream);
      cudaStreamSynchronize(stream);
      right[t] = y.to_host() == constant(20 * value);
      cudaStreamDestroy(stream);
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& one : right) CHECK(one);
}

TEST_CASE("devices: count, properties, a UUID each, and copies between them") {
  int devices = 0;
  LOCKSTEP_CUDA_CHECK(cudaGetDeviceCount(&devices));
  REQUIRE(devices == 2);
  cudaDeviceProp first, second;
  LOCKSTEP_CUDA_CHECK(cudaGetDeviceProperties(&first, 0));
  LOCKSTEP_CUDA_CHECK(cudaGetDeviceProperties(&second, 1));
  CHECK(std::memcmp(&first.uuid, &second.uuid, sizeof first.uuid) != 0);
  CHECK(first.warpSize == 32);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  DeviceArray<float> x(constant(1));
  cudaSetDevice(1);
  DeviceArray<float> y(constant(3));
  cudaSetDevice(0);
  LOCKSTEP_CUDA_CHECK(cudaMemcpyPeerAsync(x.data(), 0, y.data(), 1, kBytes, nullptr));
  CHECK(x.to_host() == constant(3));
  cudaPointerAttributes attributes;
  LOCKSTEP_CUDA_CHECK(cudaPointerGetAttributes(&attributes, y.data()));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 1);
}

TEST_CASE("a kernel may not name what its device cannot reach") {
  Reports reports;
  DeviceArray<float> x(constant(1));
  std::vector<float> pageable(kN);
  launch(fill, 1, 64, 0, nullptr, pageable.data(), 0, 1.0f);
  CHECK_REPORTED(reports, "argument 0 of kernel lockstep::testing::fill(float*, int, float)");
  cudaSetDevice(1);
  launch(fill, 1, 64, 0, nullptr, x.data(), 0, 1.0f);
  const std::string text = reports.text();
  CHECK(contains(text, "on device 1 is byte 0 of the 4000-byte allocation"));
  cudaSetDevice(0);
  float* freed = nullptr;
  cudaMalloc(&freed, 256);
  cudaFree(freed);
  launch(fill, 1, 64, 0, nullptr, freed, 0, 1.0f);
  CHECK_REPORTED(reports, "FREED 256-byte allocation");
}

TEST_CASE("launches that CUDA refuses") {
  DeviceArray<float> x(constant(1));
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 2048;
  CHECK(cudaLaunchKernelEx(&config, fill, x.data(), 1, 1.0f) == cudaErrorInvalidConfiguration);
  config.blockDim = 32;
  config.gridDim = dim3(1, 70000);
  CHECK(cudaLaunchKernelEx(&config, fill, x.data(), 1, 1.0f) == cudaErrorInvalidConfiguration);
  config.gridDim = 0;
  CHECK(cudaLaunchKernelEx(&config, fill, x.data(), 1, 1.0f) == cudaErrorInvalidConfiguration);
  cudaGetLastError();
  CHECK_THROWS_WITH(launch(fill, 1, 0, 0, nullptr, x.data(), 1, 1.0f),
                    doctest::Contains("cudaErrorInvalidConfiguration"));
  CHECK(cudaGetLastError() == cudaSuccess);  // the exception took it along
  cudaStream_t stream = make_stream();
  cudaSetDevice(1);
  CHECK_THROWS_WITH(launch(fill, 1, 1, 0, stream, x.data(), 1, 1.0f),
                    doctest::Contains("cudaErrorInvalidResourceHandle"));
  cudaSetDevice(0);
  cudaStreamDestroy(stream);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("copies that CUDA refuses") {
  DeviceArray<float> x(constant(1));
  std::vector<float> host(2 * kN);
  CHECK(cudaMemcpy(x.data(), host.data(), kBytes + 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), x.data(), 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemset(host.data(), 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(nullptr, host.data(), 4, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaFree(host.data()) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("memory: fresh is NaN, an allocation can be made to fail, capacity is finite") {
  {
    Reports reports;  // the check build reports the copy of uninitialised memory
    DeviceArray<float> x(kN);
    for (float value : x.to_host()) REQUIRE(std::isnan(value));
  }
  void* first = nullptr;
  void* second = nullptr;
  emulation::fail_allocation_after(1);
  CHECK(cudaMalloc(&first, 8) == cudaSuccess);
  CHECK(cudaMalloc(&second, 8) == cudaErrorMemoryAllocation);
  CHECK(second == nullptr);
  emulation::fail_allocation_after(-1);
  size_t available = 0, total = 0;
  LOCKSTEP_CUDA_CHECK(cudaMemGetInfo(&available, &total));
  CHECK(cudaMalloc(&second, total) == cudaErrorMemoryAllocation);
  CHECK(available < total);
  cudaGetLastError();
  cudaFree(first);
}

TEST_CASE("counters: launches, bytes, synchronisations and calls") {
  DeviceArray<float> x(constant(1)), y(constant(2));
  float* pinned = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaMallocHost(&pinned, kBytes));
  cudaStream_t stream = make_stream();
  cudaEvent_t event = make_event();
  const emulation::Counters before = emulation::counters();
  run_axpy(x.data(), y.data(), stream);
  run_axpy(x.data(), y.data(), stream);
  cudaMemcpyAsync(pinned, y.data(), kBytes, cudaMemcpyDeviceToHost, stream);
  cudaMemcpyAsync(x.data(), pinned, kBytes, cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(y.data(), x.data(), 40, cudaMemcpyDeviceToDevice, stream);
  cudaMemsetAsync(x.data(), 0, 80, stream);
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(stream, event);
  cudaEventSynchronize(event);
  emulation::Counters expected;
  expected.launches = 2;
  expected.copies = 3;
  expected.bytes_to_host = expected.bytes_to_device = kBytes;
  expected.bytes_on_device = 40;
  expected.bytes_set = 80;
  expected.event_records = expected.event_waits = expected.synchronisations = 1;
  if (emulation::variant() == emulation::Variant::Check) {
    expected.kernel_bytes_read = 2 * 2 * kBytes;
    expected.kernel_bytes_written = 2 * kBytes;
  }
  CHECK(emulation::counters() - before == expected);
  int64_t launches = 0;
  for (const auto& [name, n] : emulation::kernel_launches()) {
    if (name == "lockstep::testing::axpy(float, float const*, float*, int)") launches = n;
  }
  CHECK(launches >= 2);
  cudaFreeHost(pinned);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}
