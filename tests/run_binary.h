// Runs the lockstep binary as a user would and returns what it printed and how it ended.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/temporary_folder.h"

namespace lockstep::test {

struct Finished {
  int status = -1;     ///< exit code, or 128 + signal
  std::string output;  ///< standard output
  std::string error;   ///< standard error
};

/// A started binary whose output goes to files.
class RunningBinary {
 public:
  /// `environment`: NAME=VALUE entries added to ours.
  explicit RunningBinary(std::vector<std::string> arguments,
                         const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), LOCKSTEP_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string output = folder_.file("output");
    const std::string error = folder_.file("error");
    pid_ = ::fork();
    if (pid_ != 0) return;
    redirect(output, STDOUT_FILENO);
    redirect(error, STDERR_FILENO);
    for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  pid_t pid() const { return pid_; }

  /// Waits for the end; a binary that is still there after `limit` is killed and reported as such.
  Finished wait(std::chrono::seconds limit = std::chrono::seconds(100)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) ::kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    Finished finished;
    finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    finished.output = TemporaryFolder::read(folder_.file("output"));
    finished.error = TemporaryFolder::read(folder_.file("error"));
    return finished;
  }

 private:
  static void redirect(const std::string& path, int descriptor) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, descriptor);
    ::close(file);
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

inline Finished run_binary(std::vector<std::string> arguments,
                           const std::vector<std::string>& environment = {}) {
  return RunningBinary(std::move(arguments), environment).wait();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace lockstep::test
