// The stores: set, get, add, check and wait, alone, from many threads and from many processes; and
// what a file store does with a file that is not its own.
#include "dist/store.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "tests/ranks.h"

namespace lockstep::dist {
namespace {

using test::TemporaryFolder;

void check_contract(Store& store) {
  CHECK_FALSE(store.check("a"));
  store.set("a", "1");
  CHECK(store.check("a"));
  CHECK(store.get("a", Milliseconds(0)) == "1");
  store.set("a", std::string("\0x\n", 3));
  CHECK(store.get("a", Milliseconds(0)) == std::string("\0x\n", 3));
  store.set("empty", "");
  CHECK(store.get("empty", Milliseconds(0)).empty());
  const std::string large(100'000, 'l');
  store.set("large", large);
  CHECK(store.get("large", Milliseconds(0)) == large);

  CHECK(store.add("n", 5) == 5);
  CHECK(store.add("n", -7) == -2);
  CHECK(store.get("n", Milliseconds(0)) == "-2");
  CHECK_THROWS_WITH_AS(store.add("large", 1), doctest::Contains("large\"): its value \"lll"),
                       Error);

  store.wait("a", Milliseconds(0));
  try {
    store.wait("nobody/sets/this", Milliseconds(20));
    FAIL("the wait ended without its key");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Timeout);
    CHECK(std::string(error.what()).find("nobody/sets/this\" within 20 ms") != std::string::npos);
  }
}

TEST_CASE("memory store, file store and prefix store keep the contract") {
  const TemporaryFolder folder;
  SUBCASE("memory") { check_contract(*make_memory_store()); }
  SUBCASE("file") { check_contract(*make_file_store(folder.file("store"), 1)); }
  SUBCASE("prefix") { check_contract(*make_prefix_store("group", make_memory_store())); }
}

TEST_CASE("prefix stores over one store do not see each other") {
  const auto store = make_memory_store();
  const auto first = make_prefix_store("first", store);
  const auto second = make_prefix_store("second", store);
  first->set("key", "1");
  CHECK_FALSE(second->check("key"));
  CHECK(second->add("key", 2) == 2);
  CHECK(first->get("key", Milliseconds(0)) == "1");
  CHECK(store->get("second/key", Milliseconds(0)) == "2");
}

/// Counts up in turns and passes a token around a ring of `world_size` ranks.
void use_together(Store& store, int rank, int world_size) {
  constexpr int kAdds = 50;
  for (int i = 0; i < kAdds; ++i) store.add("count", rank + 1);
  store.set(concat("from/", rank), concat("token ", rank));
  const int previous = (rank + world_size - 1) % world_size;
  const std::string token = store.get(concat("from/", previous), Milliseconds(10'000));
  LOCKSTEP_CHECK(token == concat("token ", previous), "read \"", token, "\"");
  if (store.add("ready", 1) == world_size) store.set("all ready", "");
  store.wait("all ready", Milliseconds(10'000));
  const int64_t total = store.add("count", 0);
  LOCKSTEP_CHECK(total == kAdds * world_size * (world_size + 1) / 2, "the count is ", total);
}

TEST_CASE("threads share a memory store or open one file each") {
  constexpr int kWorldSize = 5;
  const TemporaryFolder folder;
  const auto run = [](const std::function<std::shared_ptr<Store>()>& open) {
    std::vector<std::thread> threads;
    std::atomic<int> failures{0};
    for (int rank = 0; rank < kWorldSize; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          use_together(*open(), rank, kWorldSize);
        } catch (const std::exception& error) {
          ++failures;
          MESSAGE(error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failures == 0);
  };
  SUBCASE("memory") {
    run([store = make_memory_store()] { return store; });
  }
  SUBCASE("file") {
    run([&] { return make_file_store(folder.file("store"), kWorldSize); });
    CHECK_MESSAGE(!std::filesystem::exists(folder.file("store")),
                  "the last rank to leave removes the file");
  }
}

/// Runs function in a forked process; its exit code.
int in_process(const std::function<int()>& function) {
  const int pid = ::fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = function();
    } catch (const Error& error) {
      code = exit_code(error.kind());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("processes share a file store") {
  constexpr int kWorldSize = 4;
  const TemporaryFolder folder;
  std::vector<int> pids;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    pids.push_back(::fork());
    if (pids.back() != 0) continue;
    try {
      use_together(*make_file_store(folder.file("store"), kWorldSize), rank, kWorldSize);
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  for (const int pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("store")));
}

TEST_CASE("a file left over from a crashed run is refused, and can be removed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("store");
  const auto crash = [&] {
    const auto store = make_file_store(path, 2);
    store->set("key", "old");
    ::_exit(0);
    return 0;
  };
  REQUIRE(in_process(crash) == 0);
  REQUIRE(std::filesystem::exists(path));
  CHECK_THROWS_WITH_AS(make_file_store(path, 2), doctest::Contains("left over from an earlier run"),
                       Error);
  std::filesystem::remove(path);
  CHECK_FALSE(make_file_store(path, 2)->check("key"));
}

TEST_CASE("a file store refuses more ranks than its world, foreign files and bad paths") {
  const TemporaryFolder folder;
  const std::string path = folder.file("store");
  const auto only = make_file_store(path, 1);
  CHECK_THROWS_WITH_AS(make_file_store(path, 1), doctest::Contains("another run uses it"), Error);

  std::ofstream(folder.file("text")) << "This file is somebody's letter and no store at all.";
  try {
    make_file_store(folder.file("text"), 1);
    FAIL("opened a letter");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::BadData);
  }
  CHECK(std::filesystem::file_size(folder.file("text")) == 51);

  try {
    make_file_store(folder.file("no/such/folder"), 1);
    FAIL("opened a file in no folder");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Io);
  }
}

TEST_CASE("what a killed writer left incomplete is overwritten") {
  const TemporaryFolder folder;
  const std::string path = folder.file("store");
  const auto store = make_file_store(path, 3);
  store->set("a", "first");
  const auto whole = std::filesystem::file_size(path);
  store->set("b", std::string(1000, 'b'));
  std::filesystem::resize_file(path, whole + 100);  // the record of b, cut off

  const auto other = make_file_store(path, 3);
  CHECK(other->get("a", Milliseconds(0)) == "first");
  CHECK_FALSE(other->check("b"));
  other->set("c", "third");
  CHECK(make_file_store(path, 3)->get("c", Milliseconds(0)) == "third");
}

}  // namespace
}  // namespace lockstep::dist
