// The choice between the AVX2 and the portable path is made once a process, so the other path is
// tested by running the test program again.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "core/base/cpu.h"

namespace lockstep::test {

inline bool is_avx2_path() { return cpu_capability() == CpuCapability::Avx2; }

/// The recorded value of the path that this process runs.
template <typename T>
T by_path(T avx2, T portable) {
  return is_avx2_path() ? avx2 : portable;
}

/// Runs this program's other test cases on the portable path; true when they passed.
inline bool passes_on_portable_path(const std::string& this_test_case) {
  const std::string exclude = "--test-case-exclude=" + this_test_case;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LOCKSTEP_CPU_CAPABILITY", "default", 1);
    ::execl("/proc/self/exe", "portable", exclude.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace lockstep::test
