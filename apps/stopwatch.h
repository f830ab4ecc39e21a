// Seconds since it was made, or since the last lap.
#pragma once

#include <chrono>

namespace lockstep::apps {

class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;

  double seconds() const { return difference(start_, Clock::now()); }

  /// Seconds since the last lap (or the start); starts the next one.
  double lap() {
    const auto now = Clock::now();
    const double seconds = difference(lap_, now);
    lap_ = now;
    return seconds;
  }

 private:
  static double difference(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  Clock::time_point start_ = Clock::now();
  Clock::time_point lap_ = start_;
};

}  // namespace lockstep::apps
