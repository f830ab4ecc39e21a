// The store for ranks that are threads of one process: a map under a mutex.
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "dist/store.h"
#include "dist/store_number.h"

namespace lockstep::dist {
namespace {

class MemoryStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override {
    {
      const std::lock_guard lock(mutex_);
      values_.insert_or_assign(std::string(key), std::string(value));
    }
    changed_.notify_all();
  }

  std::string get(std::string_view key, Milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    return wait_for(lock, key, timeout);
  }

  int64_t add(std::string_view key, int64_t amount) override {
    int64_t sum = amount;
    {
      const std::lock_guard lock(mutex_);
      const auto found = values_.find(key);
      if (found != values_.end()) sum += parse_store_number(key, found->second);
      values_.insert_or_assign(std::string(key), std::to_string(sum));
    }
    changed_.notify_all();
    return sum;
  }

  bool check(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    return values_.find(key) != values_.end();
  }

  void wait(std::string_view key, Milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    wait_for(lock, key, timeout);
  }

 private:
  const std::string& wait_for(std::unique_lock<std::mutex>& lock, std::string_view key,
                              Milliseconds timeout) {
    auto found = values_.end();
    const bool exists = changed_.wait_for(lock, timeout, [&] {
      found = values_.find(key);
      return found != values_.end();
    });
    if (!exists) throw_store_timeout(key, timeout);
    return found->second;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace lockstep::dist
