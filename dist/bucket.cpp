// The greedy assignment: one open bucket for each dtype and device.
#include "dist/bucket.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace lockstep::dist {
namespace {

/// Buckets of one dtype and device, the last of which may be open.
struct Lane {
  DType dtype;
  Device device;
  int64_t limit;
  PlannedBucket open;
  int64_t last_position = -1;  ///< in the order, of the newest member
};

struct Closed {
  PlannedBucket bucket;
  int64_t last_position;
};

/// Slices are padded in memory, but the limits count gradients alone, as PyTorch's do.
void append(PlannedBucket& bucket, int64_t index, const BucketItem& item) {
  const int64_t align = kSliceAlignment / element_size(item.dtype);
  bucket.dtype = item.dtype;
  bucket.parameters.push_back(index);
  bucket.offsets.push_back(bucket.numel);
  bucket.numel += (item.numel + align - 1) / align * align;
  bucket.nbytes += item.numel * element_size(item.dtype);
}

}  // namespace

BucketLimits bucket_limits(double bucket_cap_mb) {
  if (bucket_cap_mb == 0) return BucketLimits{};
  const double bytes = bucket_cap_mb * 1024 * 1024;
  LOCKSTEP_CHECK_KIND(Usage, std::isfinite(bytes) && bytes >= 1 && bytes < 0x1p62,
                      "bucket_cap_mb is ", bucket_cap_mb,
                      ", expected the size of a bucket in MiB, or 0 for the default");
  const auto cap = static_cast<int64_t>(bytes);
  return BucketLimits{cap, cap};
}

std::vector<PlannedBucket> plan_buckets(std::span<const BucketItem> items,
                                        std::span<const int64_t> order, BucketLimits limits) {
  std::vector<Lane> lanes;
  std::vector<Closed> closed;
  for (size_t position = 0; position < order.size(); ++position) {
    const BucketItem& item = items[static_cast<size_t>(order[position])];
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& candidate) {
      return candidate.dtype == item.dtype && candidate.device == item.device;
    });
    if (lane == lanes.end()) {
      lanes.push_back(Lane{item.dtype, item.device, limits.first_bytes, {}, -1});
      lane = lanes.end() - 1;
    }
    append(lane->open, order[position], item);
    lane->last_position = static_cast<int64_t>(position);
    if (lane->open.nbytes >= lane->limit) {
      closed.push_back(Closed{std::exchange(lane->open, {}), lane->last_position});
      lane->limit = limits.cap_bytes;
    }
  }
  // What is left is a bucket too, however small.
  for (Lane& lane : lanes) {
    if (lane.open.parameters.empty()) continue;
    closed.push_back(Closed{std::move(lane.open), lane.last_position});
  }
  std::sort(closed.begin(), closed.end(),
            [](const Closed& a, const Closed& b) { return a.last_position < b.last_position; });
  std::vector<PlannedBucket> plan;
  for (Closed& entry : closed) plan.push_back(std::move(entry.bucket));
  return plan;
}

std::vector<int64_t> reverse_order(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.rbegin(), order.rend(), int64_t{0});
  return order;
}

}  // namespace lockstep::dist
