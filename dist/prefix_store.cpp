// A store inside a store, and the helpers that the stores share.
#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "dist/store.h"
#include "dist/store_number.h"

namespace lockstep::dist {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix)), store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value) override { store_->set(full(key), value); }
  std::string get(std::string_view key, Milliseconds timeout) override {
    return store_->get(full(key), timeout);
  }
  int64_t add(std::string_view key, int64_t amount) override {
    return store_->add(full(key), amount);
  }
  bool check(std::string_view key) override { return store_->check(full(key)); }
  void wait(std::string_view key, Milliseconds timeout) override {
    store_->wait(full(key), timeout);
  }

 private:
  std::string full(std::string_view key) const {
    std::string name = prefix_;
    name += '/';
    name += key;
    return name;
  }

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

int64_t parse_store_number(std::string_view key, std::string_view value) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  LOCKSTEP_CHECK(error == std::errc() && end == value.data() + value.size(), "store: add(\"", key,
                 "\"): its value \"", value.substr(0, 40),
                 "\" is not a whole number; use another key");
  return number;
}

void throw_store_timeout(std::string_view key, Milliseconds timeout) {
  LOCKSTEP_THROW(Timeout, "store: nobody has set \"", key, "\" within ", timeout.count(),
                 " ms; is the rank that sets it running?");
}

}  // namespace lockstep::dist
