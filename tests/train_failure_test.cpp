// `lockstep train` when a rank dies, when the user stops it, and when ranks are started by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/run_binary.h"

namespace lockstep::test {
namespace {

using Clock = std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The processes whose parent is `parent`, in the order in which they were started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // "pid (name) state parent ...": the name may hold anything, so the last ")" counts.
    const std::string stat = TemporaryFolder::read(entry.path() / "stat");
    const size_t at = stat.rfind(") ");
    if (at == std::string::npos) continue;
    if (std::atoi(stat.c_str() + at + 4) == parent) children.push_back(std::atoi(name.c_str()));
  }
  std::sort(children.begin(), children.end());
  return children;
}

/// A run that would take for ever, once its ranks train: they have written a step to the log.
struct EndlessRun {
  explicit EndlessRun(int ranks)
      : binary({"train", "--nproc", std::to_string(ranks), "--epochs", "1000000000", "--json",
                folder.file("log"), "--quiet"}) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (TemporaryFolder::read(folder.file("log")).empty() && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    children = children_of(binary.pid());
  }

  TemporaryFolder folder;
  RunningBinary binary;
  std::vector<pid_t> children;
};

/// Ended: not there, or a zombie that a container's first process does not collect.
bool is_gone(pid_t pid) {
  const std::string stat = TemporaryFolder::read("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || contains(stat, ") Z ");
}

}  // namespace

TEST_CASE("a killed rank is named, and no rank stays") {
  for (const int victim : {0, 1, 2}) {
    CAPTURE(victim);
    EndlessRun run(3);
    REQUIRE(run.children.size() == 3);
    const pid_t pid = run.children[static_cast<size_t>(victim)];
    ::kill(pid, SIGKILL);
    const Finished finished = run.binary.wait(std::chrono::seconds(20));
    CAPTURE(finished.error);
    CHECK(finished.status == 128 + SIGKILL);
    const auto lines = lines_of(finished.error);
    REQUIRE(lines.size() == 3);  // the cause, then what the two others saw
    CHECK(contains(lines[0], "rank " + std::to_string(victim) + " of 3"));
    CHECK(contains(lines[0], "SIGKILL"));
    for (const int survivor : {1, 2}) {
      CHECK(contains(lines[static_cast<size_t>(survivor)], "rank " + std::to_string(victim)));
    }
    for (const pid_t child : run.children) CHECK(is_gone(child));
  }
}

TEST_CASE("SIGINT and SIGTERM end every rank, and the exit code says which") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    EndlessRun run(2);
    REQUIRE(run.children.size() == 2);
    ::kill(run.binary.pid(), signal);
    const Finished finished = run.binary.wait(std::chrono::seconds(20));
    CAPTURE(finished.error);
    CHECK(finished.status == 128 + signal);
    CHECK(contains(finished.error, signal == SIGINT ? "SIGINT" : "SIGTERM"));
    for (const pid_t child : run.children) CHECK(is_gone(child));
  }
}

TEST_CASE("no rank outlives a launcher that is killed") {
  EndlessRun run(2);
  REQUIRE(run.children.size() == 2);
  ::kill(run.binary.pid(), SIGKILL);
  CHECK(run.binary.wait(std::chrono::seconds(20)).status == 128 + SIGKILL);
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  const auto all_gone = [&] { return is_gone(run.children[0]) && is_gone(run.children[1]); };
  while (!all_gone() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(all_gone());
}

TEST_CASE("ranks that are started by hand meet at a file and train as started ones do") {
  const TemporaryFolder folder;
  const std::string meeting = "file://" + folder.file("meeting");
  RunningBinary other({"train", "--rank", "1", "--world-size", "2", "--init-method", meeting});
  const Finished by_hand =
      run_binary({"train", "--rank", "0", "--world-size", "2", "--init-method", meeting});
  CAPTURE(by_hand.error);
  CHECK(by_hand.status == 0);
  CHECK(by_hand.output == run_binary({"train", "--nproc", "2"}).output);
  const Finished second = other.wait();
  CHECK(second.status == 0);
  CHECK(second.output.empty());
}

TEST_CASE("ranks that are started with different options say so on both sides") {
  const TemporaryFolder folder;
  const std::string meeting = "file://" + folder.file("meeting");
  RunningBinary other(
      {"train", "--rank", "1", "--world-size", "2", "--init-method", meeting, "--epochs", "7"});
  const Finished first =
      run_binary({"train", "--rank", "0", "--world-size", "2", "--init-method", meeting});
  const Finished second = other.wait();
  CHECK(first.status == 64);
  CHECK(second.status == 64);
  CHECK(contains(first.error, "rank 1 was started with other options"));
  CHECK(contains(second.error, "--epochs 7 where rank 0 has --epochs 5"));
}

TEST_CASE("ranks that find different amounts of data under one name say so on both sides") {
  const TemporaryFolder folder;
  const std::string rows = "1,2,0\n2,1,1\n3,4,0\n1,1,1\n2,2,0\n";
  // One path, which names another file in each process: its own standard input.
  const auto run_with_rows = [&](const std::string& rank, const std::string& content) {
    const std::string name = folder.write("rows" + rank, content);
    const std::string command = std::string("exec '") + LOCKSTEP_BINARY + "' train --rank " + rank +
                                " --world-size 2 --init-method 'file://" + folder.file("meeting") +
                                "' --data csv:/dev/stdin <'" + name + "' >/dev/null 2>'" +
                                folder.file("error" + rank) + "'";
    return std::system(command.c_str());
  };
  std::thread other([&] { CHECK(WEXITSTATUS(run_with_rows("1", rows + rows)) == 64); });
  CHECK(WEXITSTATUS(run_with_rows("0", rows)) == 64);
  other.join();
  CHECK(contains(TemporaryFolder::read(folder.file("error0")), "rank 1 was started with other"));
  CHECK(contains(TemporaryFolder::read(folder.file("error1")),
                 "of 8 + 2 samples where rank 0 has --data csv:/dev/stdin of 4 + 1 samples"));
}

TEST_CASE("a rank that does not come is named when the deadline passes") {
  const TemporaryFolder folder;
  const Finished finished =
      run_binary({"train", "--rank", "0", "--world-size", "2", "--init-method",
                  "file://" + folder.file("meeting"), "--timeout", "0.3"});
  CHECK(finished.status == 75);
  CHECK(lines_of(finished.error).size() == 1);
  CHECK(contains(finished.error, "did not come: 1"));
}

}  // namespace lockstep::test
