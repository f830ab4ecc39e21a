// The launcher's store, between ranks that are processes and between threads of one rank.
#include "dist/launcher_store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "dist/launcher.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT

namespace {

constexpr Milliseconds kPatience{60'000};

/// Serves `num_clients` clients in a thread, as the launcher's loop does.
class ServerThread {
 public:
  explicit ServerThread(int num_clients) {
    for (int i = 0; i < num_clients; ++i) {
      clients_.push_back(make_launcher_store(server_.add_client()));
    }
    thread_ = std::thread([this] {
      std::vector<pollfd> fds;
      while (!stop_) {
        fds.clear();
        server_.append_poll_fds(fds);
        const int timeout_ms = server_.poll_timeout_ms();
        ::poll(fds.data(), fds.size(), timeout_ms < 0 ? 20 : std::min(timeout_ms, 20));
        server_.serve(fds);
      }
    });
  }
  ~ServerThread() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void close_clients() { server_.close_clients(); }
  Store& client(int i) { return *clients_[static_cast<size_t>(i)]; }

 private:
  StoreServer server_;
  std::vector<std::shared_ptr<Store>> clients_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

ErrorKind kind_of(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  FAIL("no error");
  return ErrorKind::Internal;
}

}  // namespace

TEST_CASE("set, get, check and add") {
  ServerThread server(2);
  CHECK_FALSE(server.client(0).check("key"));
  server.client(0).set("key", std::string("a\0b", 3));
  CHECK(server.client(1).check("key"));
  CHECK(server.client(1).get("key", kPatience) == std::string("a\0b", 3));
  server.client(1).set("empty", "");
  CHECK(server.client(0).get("empty", kPatience).empty());
  CHECK(server.client(0).add("count", 5) == 5);
  CHECK(server.client(1).add("count", -7) == -2);
  CHECK(server.client(0).get("count", kPatience) == "-2");
  CHECK(kind_of([&] { server.client(0).add("key", 1); }) == ErrorKind::Internal);
}

TEST_CASE("a large value arrives whole") {
  ServerThread server(2);
  std::string value(5'000'000, ' ');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 % 251);
  server.client(0).set("large", value);
  CHECK(server.client(1).get("large", kPatience) == value);
}

TEST_CASE("a wait that is not answered names its key") {
  ServerThread server(1);
  std::string message;
  CHECK(kind_of([&] { server.client(0).get("absent", Milliseconds(20)); }, &message) ==
        ErrorKind::Timeout);
  CHECK(message.find("'absent'") != std::string::npos);
  CHECK(kind_of([&] { server.client(0).wait("absent", Milliseconds(0)); }) == ErrorKind::Timeout);
  server.client(0).set("absent", "now");
  CHECK(server.client(0).get("absent", Milliseconds(0)) == "now");
}

TEST_CASE("threads share a client: a wait of one does not keep the others") {
  ServerThread server(2);
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Store& store = server.client(t % 2);
      for (int i = 0; i < kRounds; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        store.set(key, key);
        const std::string next = std::to_string((t + 1) % kThreads) + "/" + std::to_string(i);
        if (store.get(next, kPatience) != next) ++wrong;
        store.add("total", 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(server.client(0).add("total", 0) == kThreads * kRounds);
}

TEST_CASE("a launcher that is gone is an error, not a hang") {
  ServerThread server(1);
  server.stop();
  server.close_clients();
  CHECK(kind_of([&] { server.client(0).get("key", kPatience); }) == ErrorKind::PeerLost);
}

TEST_CASE("a wait ends when another rank fails, now or later, and says which") {
  LaunchOptions options{.num_ranks = 3, .report_grace = kPatience};
  std::string seen;
  options.on_stderr = [&](int, std::string_view line) { seen += line; };
  const LaunchResult result = launch(options, [](const LaunchedRank& rank) {
    rank.store->add("up", 1);
    if (rank.rank == 1) {
      while (rank.store->add("up", 0) < 3) std::this_thread::sleep_for(Milliseconds(1));
      rank.store->set("kept", "value");
      return 7;
    }
    if (rank.rank == 2) rank.store->wait(exit_key(1), kPatience);  // this key will come
    if (rank.rank == 2 && rank.store->get("kept", kPatience) != "value") return 8;
    rank.store->get("never", kPatience);
    return 9;
  });
  CHECK(result.exit_status == 7);
  CHECK(result.failed_rank == 1);
  const std::string line =
      "error: store: rank 1 exited with code 7 while this rank waited for the key 'never'\n";
  CHECK(seen == line + line);
}

TEST_CASE("it outlives rank 0") {
  LaunchOptions options{.num_ranks = 2};
  options.on_stderr = [](int, std::string_view) {};
  const LaunchResult result = launch(options, [](const LaunchedRank& rank) {
    if (rank.rank == 0) {
      rank.store->set("last words", "bye");
      return 7;
    }
    rank.store->wait(exit_key(0), kPatience);
    const bool kept = rank.store->get("last words", kPatience) == "bye" &&
                      rank.store->get(exit_key(0), kPatience) == "exited with code 7";
    return kept ? 0 : 8;
  });
  CHECK(result.exit_status == 7);
  CHECK(result.failed_rank == 0);
}
