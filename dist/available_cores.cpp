// Affinity through sched_getaffinity, quotas through the files of the control groups.
#include "dist/available_cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>

namespace lockstep::dist {
namespace {

/// The mask is asked for in growing sizes: the kernel refuses one that is smaller than its own.
int affinity_cores() {
  for (int max_cpus = 1024; max_cpus <= 1 << 20; max_cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(max_cpus));
    if (set == nullptr) break;
    const size_t nbytes = CPU_ALLOC_SIZE(static_cast<size_t>(max_cpus));
    const bool known = ::sched_getaffinity(0, nbytes, set) == 0;
    const int count = known ? CPU_COUNT_S(nbytes, set) : 0;
    const bool too_small = !known && errno == EINVAL;
    CPU_FREE(set);
    if (known) return std::max(count, 1);
    if (!too_small) break;
  }
  return 1;
}

/// Version 2: "max 100000" or "150000 100000".
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

/// Version 1: two files; a quota of -1 is none.
double quota_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  return quota_file >> quota && period_file >> period && quota > 0 && period > 0 ? quota / period
                                                                                 : 0;
}

/// The smallest quota of `path` and its parents, for a limit binds everything below it.
template <typename Quota>
double smallest(const std::string& mount, std::string path, Quota quota) {
  double least = 0;
  while (true) {
    const double here = quota(mount + path);
    if (here > 0) least = least > 0 ? std::min(least, here) : here;
    if (path.empty() || path == "/") return least;
    path.erase(path.rfind('/'));
  }
}

/// True if the comma-separated list of controllers has "cpu".
bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double cgroup_cpu_quota(const std::string& proc_cgroup, const std::string& mount) {
  std::istringstream lines(proc_cgroup);
  std::string line;
  double least = 0;
  while (std::getline(lines, line)) {  // "ID:CONTROLLERS:/PATH"; version 2 has ID 0 and no list
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    double quota = 0;
    if (controllers.empty()) quota = smallest(mount, path, quota_v2);
    if (has_cpu(controllers)) {
      quota = smallest(mount + "/" + controllers, path, quota_v1);
      if (quota == 0) quota = smallest(mount + "/cpu", path, quota_v1);
    }
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

int available_cores() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  const int cores = affinity_cores();
  const double quota = cgroup_cpu_quota(text.str(), "/sys/fs/cgroup");
  if (quota <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(quota)), 1, cores);
}

int cores_per_rank(int ranks_on_host) {
  return std::max(1, available_cores() / std::max(1, ranks_on_host));
}

}  // namespace lockstep::dist
