// Cores from affinity and from quota files laid out as the kernel lays them out.
#include "dist/available_cores.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <string>

#include "tests/temporary_folder.h"

using namespace lockstep::dist;  // NOLINT
using lockstep::test::TemporaryFolder;

TEST_CASE("version 2: the smallest quota on the way to the root") {
  const TemporaryFolder mount;
  CHECK(cgroup_cpu_quota("0::/a/b\n", mount.path()) == 0);
  mount.write("a/b/cpu.max", "max 100000\n");
  CHECK(cgroup_cpu_quota("0::/a/b\n", mount.path()) == 0);
  mount.write("a/cpu.max", "250000 100000\n");
  CHECK(cgroup_cpu_quota("0::/a/b\n", mount.path()) == 2.5);
  mount.write("a/b/cpu.max", "50000 100000\n");
  CHECK(cgroup_cpu_quota("0::/a/b\n", mount.path()) == 0.5);
  CHECK(cgroup_cpu_quota("0::/a\n", mount.path()) == 2.5);
  CHECK(cgroup_cpu_quota("0::/\n", mount.path()) == 0);
  mount.write("cpu.max", "100000 100000\n");
  CHECK(cgroup_cpu_quota("0::/\n", mount.path()) == 1);
}

TEST_CASE("version 1: quota and period, under either name of the mount") {
  const TemporaryFolder mount;
  mount.write("cpu/x/cpu.cfs_quota_us", "-1\n");
  mount.write("cpu/x/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota("3:cpuset:/x\n4:cpu:/x\n", mount.path()) == 0);
  mount.write("cpu/x/cpu.cfs_quota_us", "300000\n");
  CHECK(cgroup_cpu_quota("3:cpuset:/x\n4:cpu:/x\n", mount.path()) == 3);
  CHECK(cgroup_cpu_quota("3:cpuset:/x\n", mount.path()) == 0);
  mount.write("cpu,cpuacct/y/cpu.cfs_quota_us", "150000\n");
  mount.write("cpu,cpuacct/y/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota("4:cpu,cpuacct:/y/z\n", mount.path()) == 1.5);
}

TEST_CASE("text that is no list of groups means no quota") {
  const TemporaryFolder mount;
  CHECK(cgroup_cpu_quota("", mount.path()) == 0);
  CHECK(cgroup_cpu_quota("nonsense\n::\n", mount.path()) == 0);
}

TEST_CASE("affinity bounds the cores") {
  cpu_set_t original;
  REQUIRE(::sched_getaffinity(0, sizeof original, &original) == 0);
  CHECK(available_cores() >= 1);
  CHECK(available_cores() <= CPU_COUNT(&original));
  cpu_set_t one;
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &original)) ++cpu;
  CPU_SET(cpu, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(available_cores() == 1);
  CHECK(cores_per_rank(4) == 1);
  ::sched_setaffinity(0, sizeof original, &original);
  CHECK(cores_per_rank(1) == available_cores());
  CHECK(cores_per_rank(0) == available_cores());
}
