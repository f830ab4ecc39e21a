// What the plain build sees late; the other two stop at the store.
#include "tests/emulation/testing/harness.h"

using namespace lockstep::testing;

TEST_CASE("an overrun shows when the memory is freed") {
  Reports reports;
  {
    DeviceArray<float> x(64);
    launch(off_by_one, 1, 32, 0, nullptr, x.data(), 64);
  }
  CHECK_REPORTED(reports, "was overwritten at offset 256");
}

TEST_CASE("a missing barrier gives wrong results under another order of threads") {
  using lockstep::emulation::ThreadOrder;
  std::vector<float> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = static_cast<float>(i);
  std::vector<float> expected(64);
  for (size_t i = 0; i < 64; ++i) expected[i] = static_cast<float>(i ^ 33);
  lockstep::emulation::set_thread_order(ThreadOrder::Descending);
  DeviceArray<float> x(values);
  launch(exchange_without_barrier, 1, 64, 0, nullptr, x.data());
  CHECK(x.to_host() != expected);
  lockstep::emulation::set_thread_order(ThreadOrder::Ascending);
}
