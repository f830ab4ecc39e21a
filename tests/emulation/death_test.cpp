// Bugs that must end the process with an explanation, in every build. Each runs in a process of its
// own.
#include <cstdlib>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;
using emulation::Variant;

namespace {

std::vector<float> ones() { return std::vector<float>(64, 1.0f); }

}  // namespace

TEST_CASE("a report aborts unless a test collects it" * doctest::skip()) {
  DeviceArray<float> x(ones());
  launch(returns_before_barrier, 1, 64, 0, nullptr, x.data(), 48);
  cudaDeviceSynchronize();
}
TEST_CASE("reports end the process") {
  expect_death("a report aborts unless a test collects it", "emulation synccheck: __syncthreads");
}

TEST_CASE("host reads device memory" * doctest::skip()) {
  DeviceArray<float> x(ones());
  cudaDeviceSynchronize();
  volatile float value = x.data()[3];
  (void)value;
}
TEST_CASE("a device pointer dereferenced by the host") {
  const bool checked = emulation::variant() == Variant::Check;
  expect_death("host reads device memory",
               checked ? "HOST code touches byte 12" : "HOST code dereferenced a DEVICE pointer");
}

TEST_CASE("a child process cannot go on with the devices" * doctest::skip()) {
  DeviceArray<float> x(ones());
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, 8) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
TEST_CASE("after fork, CUDA is gone") {
  const Death death = run_case_alone("a child process cannot go on with the devices");
  INFO(death.output);
  CHECK(death.status == 0);
}

TEST_CASE("print devices" * doctest::skip()) {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  for (int d = 0; d < devices; ++d) {
    cudaDeviceProp properties;
    LOCKSTEP_CUDA_CHECK(cudaGetDeviceProperties(&properties, d));
    std::printf("device %d is %s\n", d, properties.uuid.bytes);
  }
  std::printf("%d devices\n", devices);
}
TEST_CASE("CUDA_VISIBLE_DEVICES chooses and orders devices") {
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  const Death both = run_case_alone("print devices");
  CHECK(contains(both.output, "device 0 is emulated-gpu-01"));
  CHECK(contains(both.output, "device 1 is emulated-gpu-00"));
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(contains(run_case_alone("print devices").output, "0 devices"));
  unsetenv("CUDA_VISIBLE_DEVICES");
}
