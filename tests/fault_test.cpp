// Faults at named points, as tests/acceptance/faults.py makes them by the hundred: here those that
// once went wrong, and the variable itself.
#include "core/base/fault.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/run_binary.h"

namespace lockstep::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Finished train_with(const std::string& fault, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"train", "--nproc", "4"});
  return run_binary(arguments, {"LOCKSTEP_FAULT=" + fault});
}

}  // namespace

TEST_CASE("a fault acts where, in whom, how and when the variable says") {
  CHECK(train_with("forward:2:exit:9").status == 9);
  CHECK(train_with("forward:2:kill:5").status == 128 + SIGKILL);
  CHECK(train_with("forward:2:kill:6").status == 0);  // five steps: there is no sixth time
  CHECK(train_with("forward:4:kill").status == 0);    // no such rank
  CHECK(train_with("forwards:2:kill").status == 0);   // no such point
  CHECK(train_with("optimizer:3:kill,forward:2:exit:9").status == 9);
  CHECK(train_with("launcher-fork:launcher:exit:5:2").status == 5);
}

TEST_CASE("a fault that is not understood is a usage error that shows it") {
  for (const char* fault : {"forward:2:explode", "forward:two:kill", "forward:2:exit:soon",
                            "forward:2:kill:once", "forward"}) {
    CAPTURE(fault);
    const Finished finished = train_with(fault);
    CHECK(finished.status == 64);
    CHECK(contains(finished.error, fault));
  }
}

TEST_CASE("a run that is killed while it saves or looks at its files leaves none") {
  for (const char* fault : {"temporary-file:0:kill", "launcher-start:launcher:kill"}) {
    CAPTURE(fault);
    const TemporaryFolder folder;
    const Finished finished =
        train_with(fault, {"--save", folder.file("weights"), "--json", folder.file("log")});
    CHECK(finished.status == 128 + SIGKILL);
    std::filesystem::remove(folder.file("log"));  // the user's, as far as it came
    CHECK(std::filesystem::is_empty(std::filesystem::path(folder.file("log")).parent_path()));
  }
}

TEST_CASE("saving over a file that is there replaces it, and leaves nothing else") {
  const TemporaryFolder folder;
  folder.write("weights", "old");
  CHECK(train_with("forward:4:kill", {"--save", folder.file("weights")}).status == 0);
  CHECK(TemporaryFolder::read(folder.file("weights")).size() > 40'000);
  const auto parent = std::filesystem::path(folder.file("weights")).parent_path();
  CHECK(std::distance(std::filesystem::directory_iterator(parent), {}) == 1);
}

// The ranks that had been served reported rank 0's error as their own, with its exit code, and the
// launcher took the first of them for the cause.
TEST_CASE("an error of rank 0 during the rendezvous is rank 0's") {
  for (const char* fault : {"memfd-handed-over:0:throw:1", "memfd-handed-over:0:throw:3"}) {
    CAPTURE(fault);
    const Finished finished = train_with(fault);
    CAPTURE(finished.error);
    CHECK(finished.status == 70);
    CHECK(lines_of(finished.error).size() == 1);
    CHECK(contains(finished.error, "[rank 0/4 "));
    CHECK(contains(finished.error, "fault at memfd-handed-over"));
  }
}

// The communication thread went on with the next bucket, and all ranks complained that they call
// different collectives.
TEST_CASE("an error between two meetings of a queued all-reduce is the one that is shown") {
  for (const int rank : {0, 3}) {
    CAPTURE(rank);
    const Finished finished =
        train_with("mid-bucket:" + std::to_string(rank) + ":throw:2",
                   {"--data", "digits", "--model", "mlp:64,1200,64,10", "--bucket-cap-mb", "0.3"});
    CAPTURE(finished.error);
    CHECK(finished.status == 70);
    CHECK(lines_of(finished.error).size() == 1);
    CHECK(contains(finished.error, "[rank " + std::to_string(rank) + "/4 "));
    CHECK(contains(finished.error, "fault at mid-bucket"));
  }
}

TEST_CASE("of ranks that were started by hand, one that dies is named by the other") {
  for (const int victim : {0, 1}) {
    CAPTURE(victim);
    const TemporaryFolder folder;
    const auto rank = [&](int number) {
      return std::vector<std::string>{
          "train", "--rank",  std::to_string(number), "--world-size",
          "2",     "--quiet", "--init-method",        "file://" + folder.file("meeting")};
    };
    const std::string dead = std::to_string(victim);
    RunningBinary dies(rank(victim), {"LOCKSTEP_FAULT=forward:" + dead + ":kill:3"});
    const Finished finished = run_binary(rank(1 - victim));
    CHECK(dies.wait().status == 128 + SIGKILL);
    CAPTURE(finished.error);
    CHECK(finished.status == 69);
    CHECK(contains(finished.error, "rank " + dead + " (pid "));
    CHECK(contains(finished.error, "last phase: step 2, forward"));
    CHECK(contains(finished.error, "all_reduce #"));
  }
}

// The survivors knew that somebody had died while it reported, and not who.
TEST_CASE("when the rank that reports a death dies itself, the others name both") {
  const Finished finished =
      run_binary({"train", "--nproc", "4", "--epochs", "1000000000", "--quiet"},
                 {"LOCKSTEP_FAULT=forward:1:kill:9,reporting:any:kill"});
  CAPTURE(finished.error);
  CHECK(finished.status == 128 + SIGKILL);
  const auto lines = lines_of(finished.error);
  REQUIRE(lines.size() > 1);
  CHECK(contains(lines[0], "rank 1 of 4"));
  for (size_t i = 1; i < lines.size(); ++i) CHECK(contains(lines[i], "rank 1 (pid "));
}

}  // namespace lockstep::test
