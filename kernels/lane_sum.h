// Sums in double over eight independent lanes: the compiler may not reorder one running sum, but it
// can keep eight of them in vector registers. The order is fixed, so the result repeats bit for
// bit.
#pragma once

#include <cstdint>

namespace lockstep::kernels::cpu {

/// term(0) + ... + term(n - 1), each term converted to double.
template <typename Term>
double lane_sum(int64_t n, Term&& term) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(term(i + lane));
    }
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(term(i));
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

}  // namespace lockstep::kernels::cpu
