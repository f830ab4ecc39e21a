// The rank's side of the launcher's store. Threads share one socket: a call sends its frame, then
// whoever finds nobody reading reads replies for all (the others sleep until theirs is there).
#include "dist/launcher_store.h"

#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "core/base/error.h"

namespace lockstep::dist {
namespace {

/// The launcher answers a wait when its time is up; a launcher that is stuck is given this much
/// longer. Counted in slices of waiting, not by the clock, because a job that was stopped for a
/// while (Ctrl-Z) must not find its deadlines passed.
constexpr int64_t kAnswerGraceMs = 10'000;
constexpr int64_t kSliceMs = 1000;

struct Reply {
  StoreFrame frame;
  std::string value;
};

class LauncherStore final : public Store {
 public:
  explicit LauncherStore(UniqueFd socket) : socket_(std::move(socket)) {}

  void set(std::string_view key, std::string_view value) override {
    call(StoreFrame::Set, key, value, 0);
  }
  std::string get(std::string_view key, Milliseconds timeout) override {
    return call(StoreFrame::Get, key, {}, timeout.count()).value;
  }
  int64_t add(std::string_view key, int64_t amount) override {
    return call(StoreFrame::Add, key, {}, amount).frame.number;
  }
  bool check(std::string_view key) override {
    return call(StoreFrame::Check, key, {}, 0).frame.number != 0;
  }
  void wait(std::string_view key, Milliseconds timeout) override {
    call(StoreFrame::Wait, key, {}, timeout.count());
  }

 private:
  Reply call(StoreFrame::Kind kind, std::string_view key, std::string_view value, int64_t number);
  void send_all(const char* data, size_t size);
  Reply read_reply(int64_t patience_ms);
  void read_all(char* data, size_t size, int64_t& patience_ms);
  Reply wait_for(uint64_t id, int64_t patience_ms, std::unique_lock<std::mutex>& lock);

  UniqueFd socket_;
  std::mutex mutex_;
  std::condition_variable replied_;
  uint64_t next_id_ = 1;
  bool reading_ = false;
  bool broken_ = false;  ///< a reply was left half read: nothing after it makes sense
  std::unordered_map<uint64_t, Reply> replies_;
};

[[noreturn]] void throw_launcher_gone() {
  LOCKSTEP_THROW(PeerLost, "store: the launcher of this rank is gone");
}

// The lock is held while the frame is sent, so that frames do not mix, and not while a reply is
// read, so that a waiting thread keeps nobody from sending.
Reply LauncherStore::call(StoreFrame::Kind kind, std::string_view key, std::string_view value,
                          int64_t number) {
  const bool waits = kind == StoreFrame::Get || kind == StoreFrame::Wait;
  const int64_t patience_ms = kAnswerGraceMs + (waits ? number : 0);
  std::unique_lock lock(mutex_);
  StoreFrame frame{kind, static_cast<uint32_t>(key.size()), value.size(), next_id_++, number};
  std::string message(reinterpret_cast<const char*>(&frame), sizeof frame);
  message.append(key).append(value);
  send_all(message.data(), message.size());
  Reply reply = wait_for(frame.id, patience_ms, lock);
  LOCKSTEP_CHECK_KIND(Timeout, reply.frame.kind != StoreFrame::TimedOut, "store: waited ", number,
                      " ms for the key '", key, "', which no rank has set");
  LOCKSTEP_CHECK_KIND(PeerLost, reply.frame.kind != StoreFrame::RankLost, "store: ", reply.value,
                      " while this rank waited for the key '", key, "'");
  LOCKSTEP_CHECK(reply.frame.kind != StoreFrame::NotANumber, "store: add to the key '", key,
                 "', whose value is not a number");
  return reply;
}

// Whoever reads may get somebody else's reply; it goes into the map, and its owner is woken. A
// reader that fails leaves half a frame behind, so the store is unusable from then on, for all
// threads.
Reply LauncherStore::wait_for(uint64_t id, int64_t patience_ms,
                              std::unique_lock<std::mutex>& lock) {
  while (true) {
    if (auto found = replies_.find(id); found != replies_.end()) {
      Reply reply = std::move(found->second);
      replies_.erase(found);
      return reply;
    }
    if (broken_) throw_launcher_gone();
    if (reading_) {  // the reader has a deadline, so this wait ends
      replied_.wait(lock);
      continue;
    }
    reading_ = true;
    lock.unlock();
    try {
      Reply reply = read_reply(patience_ms);
      lock.lock();
      replies_.emplace(reply.frame.id, std::move(reply));
    } catch (...) {
      lock.lock();
      broken_ = true;
      reading_ = false;
      replied_.notify_all();
      throw;
    }
    reading_ = false;
    replied_.notify_all();
  }
}

void LauncherStore::send_all(const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(socket_.get(), data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_launcher_gone();
    data += n;
    size -= static_cast<size_t>(n);
  }
}

Reply LauncherStore::read_reply(int64_t patience_ms) {
  Reply reply;
  read_all(reinterpret_cast<char*>(&reply.frame), sizeof reply.frame, patience_ms);
  reply.value.resize(reply.frame.value_bytes);
  read_all(reply.value.data(), reply.value.size(), patience_ms);
  return reply;
}

void LauncherStore::read_all(char* data, size_t size, int64_t& patience_ms) {
  while (size > 0) {
    pollfd ready{socket_.get(), POLLIN, 0};
    const int rc = ::poll(&ready, 1, static_cast<int>(kSliceMs));
    if (rc < 0 && errno == EINTR) continue;
    if (rc == 0) {
      patience_ms -= kSliceMs;
      LOCKSTEP_CHECK_KIND(Timeout, patience_ms > 0,
                          "store: the launcher of this rank does not answer");
      continue;
    }
    const ssize_t n = ::recv(socket_.get(), data, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (n <= 0) throw_launcher_gone();
    data += n;
    size -= static_cast<size_t>(n);
  }
}

}  // namespace

std::shared_ptr<Store> make_launcher_store(UniqueFd socket) {
  return std::make_shared<LauncherStore>(std::move(socket));
}

}  // namespace lockstep::dist
