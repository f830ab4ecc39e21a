// Which gradients are reduced together. A bucket is one flat piece of memory whose slices are the
// gradients; the plan says which parameter lies in which bucket, and where.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/device.h"
#include "core/base/dtype.h"

namespace lockstep::dist {

/// A bucket is closed as soon as it holds this many bytes or more.
struct BucketLimits {
  int64_t first_bytes = int64_t{1} << 20;  ///< of the first bucket of a dtype and device
  int64_t cap_bytes = int64_t{25} << 20;   ///< of all others
};

/// 0: the defaults, a small first bucket so that communication begins early. Given: the cap of
/// every bucket. Throws Error(Usage) when it is negative, not finite, or below one byte.
BucketLimits bucket_limits(double bucket_cap_mb);

/// What the assignment must know of a parameter.
struct BucketItem {
  int64_t numel = 0;
  DType dtype = DType::Float32;
  Device device;
};

struct PlannedBucket {
  std::vector<int64_t> parameters;  ///< indices into the items, in the order of memory
  std::vector<int64_t> offsets;     ///< of each slice, in elements
  int64_t numel = 0;                ///< of the flat memory, padding included
  int64_t nbytes = 0;               ///< of the gradients alone, as the limits count it
  DType dtype = DType::Float32;

  friend bool operator==(const PlannedBucket&, const PlannedBucket&) = default;
};

/// Slices begin at multiples of this, so that vector and matrix code finds its operands aligned.
inline constexpr int64_t kSliceAlignment = 64;

/// Goes through the items in `order` (each index once) and fills buckets; one dtype and device a
/// bucket, no item split. Buckets come in the order in which their last member comes, which is the
/// order in which they can be reduced. source: torch's compute_bucket_assignment_by_size
std::vector<PlannedBucket> plan_buckets(std::span<const BucketItem> items,
                                        std::span<const int64_t> order, BucketLimits limits);

/// n-1, ..., 0: gradients arrive roughly in the reverse order of registration.
std::vector<int64_t> reverse_order(int64_t n);

}  // namespace lockstep::dist
