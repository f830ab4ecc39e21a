// What the shm engine does when ranks disagree, give up, die or do not come: every other rank gets
// an error that names the culprit, and none hangs.
#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "tests/ranks.h"

namespace lockstep::dist {
namespace {

using Clock = std::chrono::steady_clock;
using test::expect;
using test::RankOutcome;
using test::run_rank_outcomes;
using test::run_rank_process_outcomes;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void check_error(const RankOutcome& outcome, ErrorKind kind,
                 std::initializer_list<const char*> parts) {
  INFO(outcome.message);
  REQUIRE(outcome.error.has_value());
  CHECK(*outcome.error == kind);
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(contains(outcome.message, part));
  }
}

/// Both forms of the same run.
template <typename Check>
void in_both_forms(int world_size, const test::RankFunction& function, Check check,
                   Milliseconds timeout = test::kRankTimeout) {
  SUBCASE("threads") { check(run_rank_outcomes(world_size, function, timeout)); }
  SUBCASE("processes") { check(run_rank_process_outcomes(world_size, function, timeout)); }
}

/// An uneventful collective for ranks that have just seen an error together.
void meet_again(ProcessGroup& group) {
  const Tensor one = ones({1});
  group.all_reduce(one);
  expect(one.item() == group.world_size(), "after an error the next collective is wrong");
}

TEST_CASE("ranks that call different collectives all learn both sides, and can go on") {
  in_both_forms(
      3,
      [](ProcessGroup& group) {
        const Tensor a = zeros({4, 5});
        const Tensor b = zeros({20});
        const Tensor c = zeros({4, 5}, DType::Float64);
        const bool odd = group.rank() == 2;
        const std::vector<std::function<void()>> calls = {
            [&] { odd ? group.barrier() : group.all_reduce(a); },
            [&] { group.all_reduce(odd ? b : a); },
            [&] { group.all_reduce(odd ? c : a); },
            [&] { group.all_reduce(a, odd ? ReduceOp::Max : ReduceOp::Sum); },
            [&] { group.broadcast(a, odd ? 1 : 0); },
            [&] { group.allocate({odd ? 8 : 9}, DType::Float32); },
        };
        const std::vector<std::pair<const char*, const char*>> sides = {
            {"all_reduce", "rank 2 calls barrier"},
            {"[4, 5]", "rank 2 calls all_reduce"},
            {"Float32", "Float64"},
            {"Sum of", "Max of"},
            {"from rank 0", "from rank 1"},
            {"[9]", "[8]"},
        };
        for (size_t i = 0; i < calls.size(); ++i) {
          std::string message;
          try {
            calls[i]();
          } catch (const Error& error) {
            message = error.what();
          }
          expect(contains(message, sides[i].first) && contains(message, sides[i].second),
                 "mismatch ", i, " on rank ", group.rank(), ": \"", message, "\"");
          expect(contains(message, concat("[rank ", group.rank(), "/3 ")), message);
          if (i + 1 < calls.size()) meet_again(group);
        }
      },
      [](const std::vector<RankOutcome>& outcomes) {
        for (const RankOutcome& outcome : outcomes) {
          INFO(outcome.message);
          CHECK(outcome.ok());
        }
      });
}

TEST_CASE("arguments that are wrong on one rank are an error on every rank") {
  in_both_forms(
      2,
      [](ProcessGroup& group) {
        const Tensor good = zeros({2, 3});
        const Tensor rows = zeros({4, 3});
        const Tensor bad_rows = zeros({5, 3});
        const Tensor integers = zeros({3}, DType::Int64);
        const bool odd = group.rank() == 1;
        const std::vector<std::function<void()>> calls = {
            [&] { group.all_gather(odd ? bad_rows : rows, good); },
            [&] { group.reduce_scatter(good, odd ? bad_rows : rows, ReduceOp::Sum); },
            [&] { group.broadcast(good, odd ? 2 : 0); },
            [&] { group.all_reduce(odd ? Tensor() : good); },
            [&] { group.all_reduce(odd ? integers : good, ReduceOp::Average); },
        };
        const std::vector<const char*> problems = {"[5, 3]", "[5, 3]", "root 2", "undefined",
                                                   "no average of Int64"};
        for (size_t i = 0; i < calls.size(); ++i) {
          std::string message;
          try {
            calls[i]();
          } catch (const Error& error) {
            message = error.what();
          }
          const char* part = odd ? problems[i] : "rank 1 called it with invalid arguments";
          expect(contains(message, part), "case ", i, ": \"", message, "\"");
          meet_again(group);
        }
      },
      [](const std::vector<RankOutcome>& outcomes) {
        for (const RankOutcome& outcome : outcomes) {
          INFO(outcome.message);
          CHECK(outcome.ok());
        }
      });
}

TEST_CASE("abort reaches current and later collectives of all ranks, with its reason") {
  in_both_forms(
      3,
      [](ProcessGroup& group) {
        if (group.rank() == 1) {
          group.barrier();
          group.abort("the disk is full");
        } else {
          group.barrier();
        }
        for (int attempt = 0; attempt < 2; ++attempt) {
          std::string message;
          try {
            group.barrier();
          } catch (const Error& error) {
            expect(error.kind() == ErrorKind::PeerLost, "kind of: ", error.what());
            message = error.what();
          }
          expect(contains(message, "the disk is full"), message);
          if (group.rank() != 1) expect(contains(message, "rank 1 reports"), message);
        }
      },
      [](const std::vector<RankOutcome>& outcomes) {
        for (const RankOutcome& outcome : outcomes) {
          INFO(outcome.message);
          CHECK(outcome.ok());
        }
      });
}

TEST_CASE("late ranks are named by a timeout on every rank") {
  in_both_forms(
      4,
      [](ProcessGroup& group) {
        const bool late = group.rank() == 1 || group.rank() == 3;
        group.set_phase({late ? "loading data" : "backward", 12, late ? -1 : 2});
        group.barrier();
        if (late) std::this_thread::sleep_for(std::chrono::milliseconds(900));
        group.all_reduce(zeros({7}));
      },
      [](const std::vector<RankOutcome>& outcomes) {
        for (const RankOutcome& outcome : outcomes) {
          check_error(outcome, ErrorKind::Timeout,
                      {"all_reduce", "300 ms", "rank 1 (pid ", "rank 3 (pid ",
                       "step 12, loading data", "Sum of Float32 [7]"});
          CHECK_FALSE(contains(outcome.message, "rank 0 (pid "));
        }
      },
      Milliseconds(300));
}

TEST_CASE("a rank that leaves early is named") {
  in_both_forms(
      3,
      [](ProcessGroup& group) {
        group.set_phase({"evaluation", 5, -1});
        group.barrier();
        if (group.rank() != 2) group.barrier();
      },
      [](const std::vector<RankOutcome>& outcomes) {
        CHECK(outcomes[2].ok());
        for (int rank : {0, 1}) {
          check_error(outcomes[static_cast<size_t>(rank)], ErrorKind::PeerLost,
                      {"barrier", "rank 2 (pid ", "step 5, evaluation", "has left the group"});
        }
      });
}

TEST_CASE("a rank that ends with its last collective is not missed") {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto outcomes = run_rank_process_outcomes(3, [](ProcessGroup& group) {
      Tensor tensor = group.allocate({5000}, DType::Float32);
      tensor.fill_(1);
      group.all_reduce(tensor);
      expect(tensor.data<float>()[4999] == 3.0F, "wrong sum");
      ::_exit(0);  // no destructor says goodbye
    });
    for (const RankOutcome& outcome : outcomes) {
      INFO(outcome.message);
      REQUIRE(outcome.ok());
    }
  }
}

// --- SIGKILL at named points
// -----------------------------------------------------------------------

void die() { ::kill(::getpid(), SIGKILL); }

struct KillPoint {
  const char* name;
  const char* operation;  ///< that the others wait for
  std::function<void(ProcessGroup&)> victim;
  std::function<void(ProcessGroup&)> others;
};

std::vector<KillPoint> kill_points() {
  const auto train = [](ProcessGroup& group) {
    const Tensor bucket = group.allocate({300'000}, DType::Float32);
    for (int step = 0; step < 1'000'000; ++step) group.all_reduce(bucket, ReduceOp::Average);
  };
  return {
      {"before its first collective", "barrier", [](ProcessGroup&) { die(); },
       [](ProcessGroup& group) { group.barrier(); }},
      {"instead of an allocation", "allocate", [](ProcessGroup&) { die(); },
       [](ProcessGroup& group) { group.allocate({1000}, DType::Float32); }},
      {"while its collective is queued", "all_reduce",
       [](ProcessGroup& group) {
         const Tensor bucket = group.allocate({10}, DType::Float32);
         const auto work = group.all_reduce_async(bucket, ReduceOp::Sum);
         die();
       },
       [](ProcessGroup& group) { group.all_reduce(group.allocate({10}, DType::Float32)); }},
      {"in the middle of a run of all_reduces", "all_reduce",
       [train](ProcessGroup& group) {
         std::thread killer([] {
           std::this_thread::sleep_for(std::chrono::milliseconds(50));
           die();
         });
         killer.detach();
         train(group);
       },
       train},
      {"in the middle of a broadcast", "broadcast",
       [](ProcessGroup& group) {
         std::thread killer([] {
           std::this_thread::sleep_for(std::chrono::milliseconds(50));
           die();
         });
         killer.detach();
         const Tensor tensor = zeros({1'000'000});
         while (true) group.broadcast(tensor, group.world_size() - 1);
       },
       [](ProcessGroup& group) {
         const Tensor tensor = zeros({1'000'000});
         while (true) group.broadcast(tensor, group.world_size() - 1);
       }},
  };
}

TEST_CASE("a killed rank is named by every other rank within a second") {
  constexpr int kWorldSize = 3;
  for (const KillPoint& point : kill_points()) {
    CAPTURE(point.name);
    const auto started = Clock::now();
    const auto outcomes = run_rank_process_outcomes(kWorldSize, [&](ProcessGroup& group) {
      group.set_phase({"backward", 120, 2});
      group.barrier();
      group.rank() == kWorldSize - 1 ? point.victim(group) : point.others(group);
    });
    // The deadline of the waits is 20 s: far below it, the death itself must have been noticed.
    CHECK(Clock::now() - started < std::chrono::seconds(10));
    CHECK(outcomes[kWorldSize - 1].signal == SIGKILL);
    for (size_t rank = 0; rank + 1 < kWorldSize; ++rank) {
      check_error(outcomes[rank], ErrorKind::PeerLost,
                  {point.operation, "rank 2 (pid ", "died", "step 120, backward, bucket 2"});
    }
  }
}

TEST_CASE("ranks that never come are named by rank 0, and rank 0 by the others") {
  const auto store = make_memory_store();
  ProcessGroupOptions options{.world_size = 3, .store = store, .timeout = Milliseconds(100)};
  options.rank = 1;
  CHECK_THROWS_WITH_AS(init_process_group(options),
                       doctest::Contains("waited 100 ms for rank 0, which did not come"), Error);
  options.rank = 0;
  options.store = make_memory_store();
  CHECK_THROWS_WITH_AS(init_process_group(options),
                       doctest::Contains("these ranks did not come: 1, 2"), Error);
}

TEST_CASE("nothing with a name is left in /dev/shm, whoever dies") {
  const auto names = [] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      if (contains(entry.path().string(), "lockstep")) found.push_back(entry.path().string());
    }
    return found;
  };
  const auto before = names();
  run_rank_process_outcomes(2, [](ProcessGroup& group) {
    const Tensor tensor = group.allocate({100'000}, DType::Float32);
    group.all_reduce(tensor);
    die();
  });
  CHECK(names() == before);
}

}  // namespace
}  // namespace lockstep::dist
