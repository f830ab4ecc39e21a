// Blocks, barriers, warps and shared memory: right kernels run right under every order of threads,
// and misuse is diagnosed.
#include <algorithm>
#include <cmath>

#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;
using emulation::ThreadOrder;

namespace {

std::vector<float> iota(int n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  return values;
}

struct Orders {
  ~Orders() { emulation::set_thread_order(ThreadOrder::Ascending); }
  static constexpr ThreadOrder kAll[] = {ThreadOrder::Ascending, ThreadOrder::Descending,
                                         ThreadOrder::Random};
};

}  // namespace

TEST_CASE("every thread runs once with its own coordinates") {
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  const size_t n = 12 * 60;
  Orders orders;
  for (ThreadOrder order : Orders::kAll) {
    emulation::set_thread_order(order, 3);
    DeviceArray<int64_t> out(n);
    launch(coordinates, grid, block, 0, nullptr, out.data());
    const std::vector<int64_t> got = out.to_host();
    size_t i = 0;
    for (int bz = 0; bz < 2; ++bz) {
      for (int by = 0; by < 2; ++by) {
        for (int bx = 0; bx < 3; ++bx) {
          for (int t = 0; t < 60; ++t, ++i) {
            const int64_t b = (bz * 100 + by) * 100 + bx;
            REQUIRE(got[i] == (b * 100 + t / 20) * 10000 + t / 5 % 4 * 100 + t % 5);
          }
        }
      }
    }
  }
}

TEST_CASE("values cross shared memory and warps under every order of threads") {
  Orders orders;
  for (ThreadOrder order : Orders::kAll) {
    emulation::set_thread_order(order, 7);
    DeviceArray<float> x(iota(64)), y(iota(64));
    launch(exchange, 1, 64, 0, nullptr, x.data());
    launch(exchange_in_warp, 1, 64, 0, nullptr, y.data());
    const auto block = x.to_host(), warp = y.to_host();
    for (int i = 0; i < 64; ++i) {
      REQUIRE(block[static_cast<size_t>(i)] == static_cast<float>(i ^ 33));
      REQUIRE(warp[static_cast<size_t>(i)] == static_cast<float>(i ^ 3));
    }
  }
}

TEST_CASE("a reduction over rows of any length, by blocks of any size") {
  for (int columns : {1, 31, 32, 33, 1000}) {
    for (unsigned threads : {32u, 256u, 1024u}) {
      const int rows = 5;
      DeviceArray<float> x(iota(rows * columns)), sums(rows), maxima(rows);
      launch(row_sum_and_max, rows, threads, 0, nullptr, x.data(), sums.data(), maxima.data(),
             columns);
      const auto sum = sums.to_host(), greatest = maxima.to_host();
      for (int r = 0; r < rows; ++r) {
        // Integers below 2^24: every order of additions gives the same float.
        const double first = double(r) * columns, last = first + columns - 1;
        const double exact = (first + last) * columns / 2;
        REQUIRE(sum[static_cast<size_t>(r)] == static_cast<float>(exact));
        REQUIRE(greatest[static_cast<size_t>(r)] == static_cast<float>(last));
      }
    }
  }
}

TEST_CASE("threads past the end leave memory alone") {
  const int n = 1000;  // of 1024 threads, and the arrays end there
  DeviceArray<float> x(iota(n)), y(n);
  launch(copy, 4, 256, 0, nullptr, x.data(), y.data(), n);
  CHECK(y.to_host() == iota(n));
  launch(fill, 4, 256, 0, nullptr, x.data(), n, 2.0f);
  launch(axpy, 4, 256, 0, nullptr, 0.5f, x.data(), y.data(), n);
  const auto sums = y.to_host();
  for (int i = 0; i < n; ++i) REQUIRE(sums[static_cast<size_t>(i)] == static_cast<float>(i + 1));
}

TEST_CASE("votes, reductions and counting barriers") {
  DeviceArray<int> out(8);
  launch(count_votes, 1, 64, 0, nullptr, out.data());
  const std::vector<int> expected = {0x55555555, 1, 1, 31 * 32 / 2, 0xff, 22, 1, 0};
  CHECK(out.to_host() == expected);
}

TEST_CASE("shuffles respect width and segment") {
  DeviceArray<int> out(128);
  launch(shuffles, 1, 32, 0, nullptr, out.data());
  const auto got = out.to_host();
  for (int lane = 0; lane < 32; ++lane) {
    const int* mine = &got[static_cast<size_t>(lane) * 4];
    CHECK(mine[0] == lane / 8 * 8 + (lane + 1) % 8);
    CHECK(mine[1] == (lane >= 3 ? lane - 3 : lane));
    CHECK(mine[2] == (lane % 16 + 3 < 16 ? lane + 3 : lane));
    CHECK(mine[3] == (lane ^ 5));
  }
}

TEST_CASE("dynamic shared memory up to the limit that the kernel asked for") {
  const int n = 100 * 256;  // 100 KiB
  DeviceArray<float> x(iota(n));
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 128;
  config.dynamicSmemBytes = n * sizeof(float);
  CHECK(cudaLaunchKernelEx(&config, through_dynamic, x.data(), n) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  LOCKSTEP_CUDA_CHECK(cudaFuncSetAttribute(
      through_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, n * int(sizeof(float))));
  CHECK(cudaLaunchKernelEx(&config, through_dynamic, x.data(), n) == cudaSuccess);
  std::vector<float> reversed = iota(n);
  std::reverse(reversed.begin(), reversed.end());
  CHECK(x.to_host() == reversed);
}

TEST_CASE("atomics add up over blocks") {
  DeviceArray<float> total(std::vector<float>{0.0f});
  launch(add_atomically, 100, 32, 0, nullptr, total.data());
  CHECK(total.to_host()[0] == 100.0f);
}

TEST_CASE("fp16 functions of device code round once") {
  // 1 + 2^-11 is half way between two fp16 numbers; the third term decides.
  const float up = std::ldexp(1.0f, -24);
  DeviceArray<float> x({std::ldexp(1.0f, -11), 1.0f, 1.0f}), out(2);
  launch(half_math, 1, 1, 0, nullptr, x.data(), out.data());
  CHECK(out.to_host()[0] == 1.0f);  // ties to even
  DeviceArray<float> y({1.0f + std::ldexp(1.0f, -10), std::ldexp(1.0f, -11) + up, 1.0f});
  launch(half_math, 1, 1, 0, nullptr, y.data(), out.data());
  CHECK(out.to_host()[0] == 1.0f + std::ldexp(1.0f, -10));
}

TEST_CASE("a barrier that not every thread reaches") {
  Reports reports;
  DeviceArray<float> x(iota(64));
  launch(returns_before_barrier, 1, 64, 0, nullptr, x.data(), 48);
  CHECK_REPORTED(reports, "reached by 48 of 64 threads");
  launch(different_barriers, 1, 64, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "different __syncthreads");
}

TEST_CASE("warp operations that do not fit together") {
  Reports reports;
  DeviceArray<float> x(iota(64));
  launch(shuffle_from_outside, 1, 32, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "which does not take part");
  launch(different_warp_operations, 1, 32, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "different warp operations");
  launch(not_in_own_mask, 1, 32, 0, nullptr, x.data());
  CHECK_REPORTED(reports, "is not in its own mask");
}

TEST_CASE("a deadlock names who waits where") {
  Reports reports;
  DeviceArray<float> x(iota(64));
  launch(waits_for_missing_lanes, 1, 32, 0, nullptr, x.data());
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchTimeout);
  const std::string text = reports.text();
  INFO(text);
  CHECK(contains(text, "no thread of the block can go on"));
  CHECK(contains(text, "16 threads (first 0) wait in a warp operation"));
  CHECK(contains(text, "16 threads (first 16) wait in __syncthreads"));
  CHECK(contains(text, "buggy_kernels.cu:"));
  // The device works again after its errors are cleared.
  launch(exchange, 1, 64, 0, nullptr, x.data());
  CHECK_CLEAN(reports);
}

TEST_CASE("a trap ends the kernel and stays until it is cleared") {
  Reports reports;
  DeviceArray<float> x(iota(64));
  launch(traps, 1, 32, 0, nullptr, x.data());
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);  // a fault is not forgotten
  CHECK_REPORTED(reports, "thread (7,0,0) of block (0,0,0)");
}
