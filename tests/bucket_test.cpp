// Bucket plans: against what PyTorch does with the same model, and the rules that any plan obeys.
#include "dist/bucket.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/base/error.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT

namespace {

std::vector<BucketItem> items_of(const std::vector<int64_t>& numels, DType dtype = DType::Float32) {
  std::vector<BucketItem> items;
  for (const int64_t numel : numels) items.push_back({numel, dtype, kCPU});
  return items;
}

std::vector<std::vector<int64_t>> members(const std::vector<PlannedBucket>& plan) {
  std::vector<std::vector<int64_t>> result;
  for (const PlannedBucket& bucket : plan) result.push_back(bucket.parameters);
  return result;
}

using Members = std::vector<std::vector<int64_t>>;

}  // namespace

// Linear(300, 1000), Linear(1000, 2000), Linear(2000, 10) under torch 2.6: bucket_sizes 8088040 and
// 1204000 after the rebuild, parameters "5 4 3 2" and "1 0".
TEST_CASE("the plan of a three-layer model is PyTorch's after its rebuild") {
  const auto items = items_of({300'000, 1000, 2'000'000, 2000, 20'000, 10});
  const auto plan = plan_buckets(items, reverse_order(6), bucket_limits(0));
  CHECK(members(plan) == Members{{5, 4, 3, 2}, {1, 0}});
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].nbytes == 8'088'040);
  CHECK(plan[1].nbytes == 1'204'000);
}

TEST_CASE("a given cap is that of the first bucket too") {
  const auto items = items_of({300'000, 1000, 2'000'000, 2000, 20'000, 10});
  CHECK(members(plan_buckets(items, reverse_order(6), bucket_limits(25))) ==
        Members{{5, 4, 3, 2, 1, 0}});
  CHECK(members(plan_buckets(items, reverse_order(6), bucket_limits(1e-6))) ==
        Members{{5}, {4}, {3}, {2}, {1}, {0}});
}

TEST_CASE("a bucket closes when it holds its limit, not when the next item would pass it") {
  const BucketLimits limits{400, 800};
  CHECK(members(plan_buckets(items_of({50, 50, 200, 1}), std::vector<int64_t>{0, 1, 2, 3},
                             limits)) == Members{{0, 1}, {2}, {3}});
  CHECK(members(plan_buckets(items_of({99, 500, 199, 1}), std::vector<int64_t>{0, 1, 2, 3},
                             limits)) == Members{{0, 1}, {2, 3}});
}

TEST_CASE("dtypes and devices do not mix, and each has its own first limit") {
  std::vector<BucketItem> items = items_of({100, 100, 100, 100, 100, 100});
  items[1].dtype = items[3].dtype = items[5].dtype = DType::Float64;
  items[4].device = Device(DeviceType::CUDA, 1);
  // Float32 on the CPU: 0, 2; Float64: 1, 3, 5; Float32 on the GPU: 4.
  const auto plan = plan_buckets(items, std::vector<int64_t>{0, 1, 2, 3, 4, 5}, {400, 1600});
  CHECK(members(plan) == Members{{0}, {1}, {2}, {4}, {3, 5}});
}

TEST_CASE("buckets come in the order in which they can be reduced") {
  std::vector<BucketItem> items = items_of({10, 10, 10, 10});
  items[0].dtype = DType::Float64;
  items[3].dtype = DType::Float64;
  // Float64's bucket is opened first and complete last.
  CHECK(members(plan_buckets(items, std::vector<int64_t>{0, 1, 2, 3}, bucket_limits(0))) ==
        Members{{1, 2}, {0, 3}});
}

TEST_CASE("no parameters, and parameters without elements") {
  CHECK(plan_buckets({}, {}, bucket_limits(0)).empty());
  const auto plan = plan_buckets(items_of({0, 3, 0}), reverse_order(3), bucket_limits(0));
  CHECK(members(plan) == Members{{2, 1, 0}});
  CHECK(plan[0].nbytes == 12);
  CHECK(plan[0].offsets == std::vector<int64_t>{0, 0, 16});
}

TEST_CASE("whatever the model: every parameter once, in order, aligned, apart, within the limits") {
  std::mt19937 random(7);
  const DType dtypes[] = {DType::Float32, DType::Float64, DType::Float16};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    std::vector<BucketItem> items(1 + random() % 40);
    for (BucketItem& item : items) {
      item = {static_cast<int64_t>(random() % 300), dtypes[random() % 3], kCPU};
    }
    std::vector<int64_t> order = reverse_order(static_cast<int64_t>(items.size()));
    std::shuffle(order.begin(), order.end(), random);
    const BucketLimits limits{1 + static_cast<int64_t>(random() % 1000),
                              1 + static_cast<int64_t>(random() % 4000)};
    const auto plan = plan_buckets(items, order, limits);
    const int64_t largest = std::max(limits.first_bytes, limits.cap_bytes);
    std::vector<int> seen(items.size());
    for (const PlannedBucket& bucket : plan) {
      int64_t end = 0;
      int64_t nbytes = 0;
      for (size_t i = 0; i < bucket.parameters.size(); ++i) {
        const BucketItem& item = items[static_cast<size_t>(bucket.parameters[i])];
        ++seen[static_cast<size_t>(bucket.parameters[i])];
        CHECK(nbytes < largest);  // closed as soon as it is reached
        nbytes += item.numel * element_size(item.dtype);
        CHECK(item.dtype == bucket.dtype);
        CHECK(bucket.offsets[i] >= end);
        CHECK(bucket.offsets[i] * element_size(item.dtype) % kSliceAlignment == 0);
        end = bucket.offsets[i] + item.numel;
      }
      CHECK(end <= bucket.numel);
      CHECK(nbytes == bucket.nbytes);
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  }
}

TEST_CASE("a cap that is no size is refused") {
  for (const double cap : {-1.0, 1e-9, 1e300, std::nan("")}) {
    CAPTURE(cap);
    CHECK_THROWS_AS(bucket_limits(cap), Error);
  }
  CHECK(bucket_limits(0.5).first_bytes == 512 * 1024);
  CHECK(bucket_limits(0.5).cap_bytes == 512 * 1024);
}
