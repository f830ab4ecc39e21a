// The launcher, DistributedDataParallel and the engine together, when a rank goes in the middle of
// training: the right rank is named, by the launcher and by every rank that is left.
#include <doctest/doctest.h>
#include <signal.h>

#include <iostream>
#include <map>

#include "core/optim/optimizer.h"
#include "dist/launcher.h"
#include "tests/ddp_models.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT
using namespace lockstep::test;  // NOLINT

namespace {

/// Trains for ever; `fail` is called before each step.
int train(const std::function<void(const ProcessGroup&, int step)>& fail) {
  ::signal(SIGTERM, SIG_DFL);  // a program's, not the test framework's
  const auto group = init_process_group();
  nn::Sequential model = three_layers();
  DistributedDataParallel ddp(model, group, {.bucket_cap_mb = kOneParameterBuckets});
  optim::SGD optimizer(ddp.parameters(), {.lr = 0.01});
  for (int i = 0;; ++i) {
    fail(*group, i);
    optimizer.zero_grad();
    step(ddp, ones({2, 4}));
    optimizer.step();
  }
}

}  // namespace

TEST_CASE("whichever rank is killed, it is named by the launcher and by the others") {
  constexpr int kRanks = 3;
  for (int victim = 0; victim < kRanks; ++victim) {
    CAPTURE(victim);
    LaunchOptions options{.num_ranks = kRanks, .report_grace = Milliseconds(20'000)};
    std::map<int, std::string> output;
    options.on_stderr = [&](int rank, std::string_view line) { output[rank] += line; };
    const LaunchResult result = launch(options, [&](const LaunchedRank&) {
      return train([&](const ProcessGroup& group, int i) {
        if (i == 20 && group.rank() == victim) ::raise(SIGKILL);
      });
    });
    CHECK(result.failed_rank == victim);
    CHECK(result.exit_status == 128 + SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      CHECK_MESSAGE(contains(output[rank], concat("rank ", victim)), output[rank]);
    }
  }
}

TEST_CASE("an error of one rank ends the launch with its exit code, and the others report it") {
  LaunchOptions options{.num_ranks = 2, .report_grace = Milliseconds(20'000)};
  std::map<int, std::string> output;
  options.on_stderr = [&](int rank, std::string_view line) { output[rank] += line; };
  const LaunchResult result = launch(options, [&](const LaunchedRank&) {
    return train([&](const ProcessGroup& group, int i) {
      if (i == 3 && group.rank() == 1) LOCKSTEP_THROW(BadData, "labels.idx is truncated");
    });
  });
  CHECK(result.failed_rank == 1);
  CHECK(result.exit_status == exit_code(ErrorKind::BadData));
  CHECK(contains(result.last_lines, "labels.idx is truncated"));
  CHECK_MESSAGE(contains(output[0], "rank 1"), output[0]);
}
