// Store: the small key-value service through which ranks find each other. Values are bytes; a key
// is set once or counted up. Rendezvous, unique ids, addresses and reports all go through it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::dist {

using Milliseconds = std::chrono::milliseconds;

/// Thread-safe. Every call that waits has a deadline; when it passes, Error(Timeout) names the key.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key exists.
  virtual std::string get(std::string_view key, Milliseconds timeout) = 0;
  /// Adds to the decimal number under key (absent: 0), atomically; returns the new value.
  virtual int64_t add(std::string_view key, int64_t amount) = 0;
  /// True if the key exists now.
  virtual bool check(std::string_view key) = 0;
  virtual void wait(std::string_view key, Milliseconds timeout) = 0;
};

/// In this process, for ranks that are threads.
std::shared_ptr<Store> make_memory_store();

/// An append-only log file under flock, for ranks started by hand on one host; survives no crash of
/// the host, and a file left over from an earlier run is recognised (its ranks are gone) and
/// refused. throws Error(Io) when the file cannot be opened
std::shared_ptr<Store> make_file_store(const std::string& path, int world_size);

/// Every key of `store` under `prefix`: several groups can share a store.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace lockstep::dist
