// What AddressSanitizer and UndefinedBehaviorSanitizer stop at. Each bug runs in a process of its
// own, because they end it.
#include "tests/emulation/testing/harness.h"

using namespace lockstep::testing;

namespace {
std::vector<float> ones() { return std::vector<float>(64, 1.0f); }
}  // namespace

TEST_CASE("overrun" * doctest::skip()) {
  DeviceArray<float> x(ones());
  launch(off_by_one, 1, 32, 0, nullptr, x.data(), 64);
  cudaDeviceSynchronize();
}
TEST_CASE("dynamic overrun" * doctest::skip()) {
  DeviceArray<float> x(ones());
  launch(overruns_dynamic, 1, 64, 256, nullptr, x.data(), 64);
  cudaDeviceSynchronize();
}
TEST_CASE("static overrun" * doctest::skip()) {
  DeviceArray<float> x(std::vector<float>(65, 1.0f));
  launch(overruns_static, 1, 64, 0, nullptr, x.data(), 65);
  cudaDeviceSynchronize();
}
TEST_CASE("misaligned" * doctest::skip()) {
  DeviceArray<float> x(ones());
  launch(misaligned_vector, 1, 4, 0, nullptr, x.data() + 1);
  cudaDeviceSynchronize();
}
TEST_CASE("use after free" * doctest::skip()) {
  DeviceArray<float> x(ones()), keeps_the_device_open(ones());
  float* freed = nullptr;
  cudaMalloc(&freed, 256);
  cudaFree(freed);
  launch(through_struct, 1, 1, 0, nullptr, Pointers{freed, x.data()});
  cudaDeviceSynchronize();
}
TEST_CASE("the sanitizers see what kernels do to memory") {
  expect_death("overrun", "AddressSanitizer");
  expect_death("dynamic overrun", "AddressSanitizer");
  expect_death("static overrun", "runtime error: index 64 out of bounds");
  expect_death("misaligned", "runtime error: ");
  expect_death("use after free", "AddressSanitizer");
}
