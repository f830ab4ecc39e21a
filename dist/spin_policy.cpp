// Affinity masks are joined over the ranks: ranks that are pinned to one core each have W cores.
#include "dist/spin_policy.h"

#include <sched.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>

#include "dist/available_cores.h"

namespace lockstep::dist {
namespace {

/// Ranks that train differ by a tenth of a millisecond now and then, and a sleeper takes as long to
/// wake; a waiting rank yields its core to whoever wants it.
constexpr std::chrono::microseconds kWaitingSpin{200};
/// Behind a rank that computes, spinning costs more than it gains.
constexpr std::chrono::microseconds kBackgroundSpin{40};

}  // namespace

void store_cpus(RankSlot& slot) {
  cpu_set_t set;
  CPU_ZERO(&set);
  static_assert(sizeof(set) == sizeof(slot.cpus));
  // A machine with more CPUs than the set holds refuses; then there is room to look.
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) std::memset(&set, 0xff, sizeof(set));
  std::memcpy(slot.cpus.data(), &set, sizeof(set));
}

SpinPolicy spin_policy(const SharedGroup& group) {
  double cores = 0;
  for (size_t word = 0; word < group.slot(0).cpus.size(); ++word) {
    uint64_t joined = 0;
    for (int rank = 0; rank < group.world_size(); ++rank) joined |= group.slot(rank).cpus[word];
    cores += std::popcount(joined);
  }
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  const double quota = cgroup_cpu_quota(text.str(), "/sys/fs/cgroup");
  if (quota > 0 && quota < cores) cores = quota;
  SpinPolicy policy;
  if (cores >= group.world_size()) policy.waiting = kWaitingSpin;
  if (cores >= 2 * group.world_size()) policy.background = kBackgroundSpin;
  return policy;
}

}  // namespace lockstep::dist
