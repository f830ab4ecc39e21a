// The two futex operations that the engine needs.
#include "dist/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace lockstep::dist {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

bool futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                std::chrono::nanoseconds timeout) noexcept {
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  const int64_t nanoseconds = timeout.count() > 0 ? timeout.count() : 0;
  const timespec relative{nanoseconds / kNanosecondsPerSecond, nanoseconds % kNanosecondsPerSecond};
  const long result = ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
  return !(result == -1 && errno == ETIMEDOUT);
}

void futex_wake_all(const std::atomic<uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::dist
