// What the emulator's tests share: buffers, the search for a diagnosis, and bugs that must kill a
// process.
#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "emulation/control.h"
#include "kernels/launch.cuh"
#include "tests/emulation/testing/kernels.cuh"

namespace lockstep::testing {

using kernels::launch;

/// n elements in device memory, from cudaMalloc.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) { LOCKSTEP_CUDA_CHECK(cudaMalloc(&data_, n * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    LOCKSTEP_CUDA_CHECK(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> to_host() const {
    std::vector<T> values(n_);
    LOCKSTEP_CUDA_CHECK(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t n_;
};

/// Collects reports while it lives, in place of aborting, and leaves a clean device behind.
class Reports {
 public:
  Reports() { emulation::set_on_error(emulation::OnError::Sticky); }
  ~Reports() {
    clear();
    emulation::set_on_error(emulation::OnError::Abort);
  }
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  /// Waits for the device and returns all reports so far, one after the other.
  std::string text() {
    cudaDeviceSynchronize();
    std::string all;
    for (const std::string& report : emulation::take_reports()) all += report + "\n";
    emulation::reset_device_errors();
    return all;
  }
  void clear() { text(); }
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// One report with this text and none of another kind.
#define CHECK_REPORTED(reports, part)                     \
  do {                                                    \
    const std::string reported = (reports).text();        \
    INFO("reported: " << reported);                       \
    CHECK(::lockstep::testing::contains(reported, part)); \
  } while (false)
#define CHECK_CLEAN(reports)                       \
  do {                                             \
    const std::string reported = (reports).text(); \
    CHECK(reported == "");                         \
  } while (false)

struct Death {
  int status;
  std::string output;
};
/// Runs one (skipped) test case of this program in a process of its own: CUDA does not survive
/// fork(), and a bug that ends the process would end the test.
inline Death run_case_alone(const std::string& name) {
  const std::string command = "exec \"$(readlink -f /proc/" + std::to_string(getpid()) +
                              "/exe)\" --no-skip " + "--test-case='" + name + "' 2>&1";
  Death death{-1, ""};
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> text;
  while (const size_t n = fread(text.data(), 1, text.size(), pipe)) {
    death.output.append(text.data(), n);
  }
  death.status = pclose(pipe);
  return death;
}

inline void expect_death(const char* name, const std::string& explanation) {
  const Death death = run_case_alone(name);
  INFO(death.output);
  CHECK(death.status != 0);
  CHECK(contains(death.output, explanation));
}

}  // namespace lockstep::testing
