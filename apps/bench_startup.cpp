// The documented run as a user starts it: a whole process, from exec to exit.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "apps/bench.h"
#include "apps/stopwatch.h"
#include "core/base/error.h"

namespace lockstep::apps {
namespace {

constexpr int kRuns = 21;

struct Run {
  double seconds = 0;
  double megabytes = 0;  ///< resident, of the largest process
};

/// Starts a program and waits for it.
Run run_once(const char* program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const Stopwatch watch;
  const pid_t pid = ::vfork();
  LOCKSTEP_CHECK_KIND(Io, pid >= 0, "bench: cannot start a process: ", std::strerror(errno));
  if (pid == 0) {
    ::execv(program, argv.data());
    ::_exit(127);
  }
  int status = 0;
  struct rusage usage {};
  while (::wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  LOCKSTEP_CHECK(status == 0, "bench: ", program, " failed with status ", status);
  return {watch.seconds(), static_cast<double>(usage.ru_maxrss) / 1024};
}

Run median_of(std::vector<Run>& runs) {
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end(),
                   [](const Run& a, const Run& b) { return a.seconds < b.seconds; });
  return *middle;
}

}  // namespace

int bench_startup(const BenchOptions& options) {
  const std::string ranks = std::to_string(num_local_ranks(options.ranks));
  std::vector<Run> runs;
  std::vector<Run> empty;
  for (int i = 0; i < kRuns; ++i) {
    runs.push_back(run_once("/proc/self/exe", {"lockstep", "train", "--quiet", "--nproc", ranks}));
    empty.push_back(run_once("/bin/true", {"true"}));
  }
  const Run run = median_of(runs);
  print_figure({"documented run, " + ranks + " ranks, whole process", run.seconds * 1e3, "ms",
                "empty program", median_of(empty).seconds * 1e3});
  print_figure({"its largest process, resident", run.megabytes, "MiB", "", 0});
  return 0;
}

}  // namespace lockstep::apps
