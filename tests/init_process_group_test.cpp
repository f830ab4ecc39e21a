// Joining a group: where rank, world size and store come from, what is refused and how, and what a
// group leaves behind.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "core/base/log.h"
#include "dist/rank_context.h"
#include "tests/ranks.h"

namespace lockstep::dist {
namespace {

using test::expect;
using test::RankOutcome;
using test::TemporaryFolder;

/// Sets environment variables for one scope.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, const char*>> variables) {
    for (const auto& [name, value] : variables) {
      ::setenv(name, value, 1);
      names_.push_back(name);
    }
  }
  ~Environment() {
    for (const char* name : names_) ::unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<const char*> names_;
};

void check_usage(const ProcessGroupOptions& options, const char* part) {
  try {
    init_process_group(options);
    FAIL("no error, expected one with: " << std::string(part));
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.kind() == ErrorKind::Usage);
    CHECK(std::string(error.what()).find(part) != std::string::npos);
  }
}

TEST_CASE("alone, a group of one, whose collectives change nothing") {
  const auto group = init_process_group();
  CHECK(group->rank() == 0);
  CHECK(group->world_size() == 1);
  CHECK(group->device() == kCPU);
  CHECK(std::string(group->backend()) == "shm");
  CHECK(log::prefix().starts_with("[rank 0/1 "));
  const Tensor tensor = Tensor::from_values<float>({1.5F, -2.0F}, {2});
  group->all_reduce(tensor, ReduceOp::Average);
  group->broadcast(tensor, 0);
  group->barrier();
  CHECK(tensor.to_vector<float>() == std::vector<float>{1.5F, -2.0F});
  const Tensor rows = zeros({2});
  group->all_gather(rows, tensor);
  CHECK(rows.to_vector<float>() == std::vector<float>{1.5F, -2.0F});
}

TEST_CASE("contradictions are usage errors that say what to do") {
  check_usage({.backend = "gloo"}, "backend \"gloo\" is not in this build");
  check_usage({.rank = 1}, "no world size");
  check_usage({.world_size = 2}, "no rank");
  check_usage({.rank = 2, .world_size = 2}, "rank 2 of world size 2");
  check_usage({.rank = 0, .world_size = 0}, "world size 0");
  check_usage({.rank = 0, .world_size = 100'000}, "at most 256");
  check_usage({.rank = 0, .world_size = 1, .init_method = "env://", .store = make_memory_store()},
              "both a store and init_method");
  check_usage({.rank = 0, .world_size = 2, .init_method = "tcp://host:29500"}, "file://PATH");
  check_usage({.rank = 0, .world_size = 2}, "file://PATH");
}

TEST_CASE("rank and world size come from the environment") {
  SUBCASE("a world of one needs no store") {
    const Environment environment{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
    CHECK(init_process_group()->world_size() == 1);
  }
  SUBCASE("options come first") {
    const Environment environment{{"RANK", "7"}, {"WORLD_SIZE", "8"}};
    CHECK(init_process_group({.rank = 0, .world_size = 1})->world_size() == 1);
  }
  SUBCASE("half of it is refused") {
    const Environment environment{{"RANK", "0"}};
    check_usage({}, "no world size");
  }
  SUBCASE("a number must be one") {
    const Environment environment{{"RANK", "zero"}, {"WORLD_SIZE", "2"}};
    check_usage({}, "RANK");
  }
}

TEST_CASE("a launcher's context is used without options") {
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  std::atomic<int> joined{0};
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      set_rank_context({.rank = rank, .local_rank = rank, .world_size = 2, .store = store});
      const auto group = init_process_group({.backend = "nccl"});
      if (group->rank() == rank && group->world_size() == 2) ++joined;
      group->barrier();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(joined == 2);
  CHECK_FALSE(rank_context().has_value());
}

TEST_CASE("processes meet at a file, several groups one after the other") {
  const TemporaryFolder folder;
  const auto outcomes = test::run_rank_process_outcomes(3, [&](ProcessGroup& outer) {
    const std::string method = "file://" + folder.file("group");
    for (int round = 0; round < 3; ++round) {
      {
        const auto inner = init_process_group({.rank = outer.rank(),
                                               .world_size = 3,
                                               .init_method = method,
                                               .timeout = Milliseconds(10'000)});
        const Tensor one = ones({1}, DType::Int64);
        inner->all_reduce(one);
        expect(one.item() == 3, "wrong sum");
      }
      outer.barrier();
    }
  });
  for (const RankOutcome& outcome : outcomes) {
    INFO(outcome.message);
    CHECK(outcome.ok());
  }
}

TEST_CASE("several groups over one store") {
  test::run_ranks(2, [store = make_memory_store()](ProcessGroup& outer) {
    std::vector<std::shared_ptr<ProcessGroup>> groups;
    for (int i = 0; i < 3; ++i) {
      groups.push_back(init_process_group({.rank = outer.rank(), .world_size = 2, .store = store}));
    }
    for (const auto& group : groups) {
      const Tensor one = ones({5});
      group->all_reduce(one);
      expect(one.data<float>()[4] == 2.0F, "wrong sum");
    }
  });
}

TEST_CASE("a rank that is claimed by two processes is refused") {
  const TemporaryFolder folder;
  const auto outcomes = test::run_rank_process_outcomes(2, [&](ProcessGroup& outer) {
    if (outer.rank() == 1) outer.barrier();  // comes second
    const auto store = make_file_store(folder.file("store"), 3);
    if (outer.rank() == 0) store->set("shm/joins/1", "1");
    if (outer.rank() == 0) store->set("shm/owner/1", "somebody else");
    if (outer.rank() == 0) outer.barrier();
    if (outer.rank() == 1) {
      std::string message;
      try {
        init_process_group({.rank = 1, .world_size = 3, .store = store});
      } catch (const Error& error) {
        message = error.what();
      }
      expect(message.find("two processes say that they are rank 1 of 3") != std::string::npos,
             message);
    }
    outer.barrier();
  });
  for (const RankOutcome& outcome : outcomes) {
    INFO(outcome.message);
    CHECK(outcome.ok());
  }
}

TEST_CASE("world sizes that differ are an error on both sides") {
  const auto store = make_memory_store();
  std::thread other([&] {
    check_usage({.rank = 1, .world_size = 3, .store = store, .timeout = Milliseconds(5000)},
                "rank 1 has world size 3, rank 0 has 2");
  });
  check_usage({.rank = 0, .world_size = 2, .store = store, .timeout = Milliseconds(5000)},
              "rank 0 has world size 2, rank 1 has 3");
  other.join();
}

int count_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:lockstep") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST_CASE("tensors outlive their group, and with the last one all shared memory is gone") {
  REQUIRE(count_mappings() == 0);
  std::vector<Tensor> kept(3);
  test::run_ranks(3, [&](ProcessGroup& group) {
    Tensor tensor = group.allocate({1000}, DType::Float32);
    expect(tensor.data<float>()[999] == 0.0F, "not zero-filled");
    tensor.fill_(group.rank());
    for (int i = 0; i < 20; ++i) {
      const Tensor passing = group.allocate({100'000}, DType::UInt8);
      group.all_reduce(passing, ReduceOp::Max);
    }
    kept[static_cast<size_t>(group.rank())] = tensor;
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(kept[static_cast<size_t>(rank)].data<float>()[999] == static_cast<float>(rank));
  }
  CHECK(count_mappings() == 1);
  kept.clear();
  CHECK(count_mappings() == 0);
}

}  // namespace
}  // namespace lockstep::dist
