// How many cores this process may really use: what a container or a batch system left of the
// machine, not what the machine has.
#pragma once

#include <string>

namespace lockstep::dist {

/// The smaller of the CPUs in this process's affinity mask and its CPU quota (cgroup v2 or v1,
/// rounded up); at least 1. Apps divide it by the ranks on the host to set BLAS threads.
int available_cores();

/// max(1, available_cores() / ranks_on_host): threads that a rank may keep busy.
int cores_per_rank(int ranks_on_host);

/// CPUs that the quota of a process allows, 0 when there is none: the smallest quota on the way
/// from its group to the root. `proc_cgroup` is the text of /proc/self/cgroup, `mount` where the
/// groups are mounted (/sys/fs/cgroup).
double cgroup_cpu_quota(const std::string& proc_cgroup, const std::string& mount);

}  // namespace lockstep::dist
