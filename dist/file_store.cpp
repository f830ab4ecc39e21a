// The store as a log that every rank appends to under flock and reads up to its end. Each rank
// enters itself with its process first, so that a file whose processes are all gone is known to be
// left over; the last one that leaves in an orderly way removes the file.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "dist/store.h"
#include "dist/store_number.h"
#include "dist/unique_fd.h"

namespace lockstep::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kMemberPrefix = "/member/";
constexpr std::string_view kLeftPrefix = "/left/";
constexpr std::string_view kUserPrefix = "/key/";

/// Before each record; the key follows, then the value.
struct RecordHead {
  static constexpr uint32_t kMagic = 0x52747352;
  uint32_t magic = kMagic;
  uint32_t key_bytes = 0;
  uint64_t value_bytes = 0;
};

/// Start time of a process in clock ticks since boot (field 22 of its stat), "" when it is gone.
std::string start_time(int pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string text;
  if (!std::getline(file, text)) return {};
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return {};
  std::istringstream fields(text.substr(after_name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// "pid start-time boot-id": names a process for good.
std::string process_identity(int pid) { return concat(pid, " ", start_time(pid), " ", boot_id()); }

bool is_alive(const std::string& identity) {
  const int pid = std::atoi(identity.c_str());
  const bool exists = ::kill(pid, 0) == 0 || errno == EPERM;
  return exists && identity == process_identity(pid);
}

class FileLock {
 public:
  FileLock(int fd, const std::string& path) : fd_(fd) {
    int result = 0;
    do {
      result = ::flock(fd_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    LOCKSTEP_CHECK_KIND(Io, result == 0, "file store: cannot lock ", path, ": ", strerror(errno));
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

class FileStore final : public Store {
 public:
  FileStore(const std::string& path, int world_size) : path_(path), world_size_(world_size) {
    while (!enter()) {
    }
  }

  ~FileStore() override {
    try {
      leave();
    } catch (const std::exception&) {  // the file stays; the next run is told that it is stale
    }
  }

  void set(std::string_view key, std::string_view value) override {
    const std::lock_guard guard(mutex_);
    const FileLock lock(file_.get(), path_);
    read_new_records();
    append(concat(kUserPrefix, key), value);
  }

  std::string get(std::string_view key, Milliseconds timeout) override {
    return wait_for(key, timeout);
  }

  int64_t add(std::string_view key, int64_t amount) override {
    const std::lock_guard guard(mutex_);
    const FileLock lock(file_.get(), path_);
    read_new_records();
    const std::string name = concat(kUserPrefix, key);
    const auto found = values_.find(name);
    const int64_t sum =
        amount + (found == values_.end() ? 0 : parse_store_number(key, found->second));
    append(name, std::to_string(sum));
    return sum;
  }

  bool check(std::string_view key) override {
    const std::lock_guard guard(mutex_);
    const FileLock lock(file_.get(), path_);
    read_new_records();
    return values_.contains(concat(kUserPrefix, key));
  }

  void wait(std::string_view key, Milliseconds timeout) override { wait_for(key, timeout); }

 private:
  /// Opens the file and enters this rank. False when the file was removed in between: again.
  bool enter() {
    file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    LOCKSTEP_CHECK_KIND(Io, file_.valid(), "file store: cannot open ", path_, ": ", strerror(errno),
                        "; it must be a path that every rank may write");
    const FileLock lock(file_.get(), path_);
    struct stat opened {};
    struct stat named {};
    if (::fstat(file_.get(), &opened) != 0 || ::stat(path_.c_str(), &named) != 0 ||
        opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
      return false;
    }
    read_new_records();
    check_members();
    number_ = count(kMemberPrefix);
    append(concat(kMemberPrefix, number_), process_identity(::getpid()));
    return true;
  }

  void check_members() const {
    const int64_t members = count(kMemberPrefix);
    if (members == 0) return;
    bool any_alive = false;
    for (const auto& [key, identity] : values_) {
      if (!key.starts_with(kMemberPrefix)) continue;
      const bool left = values_.contains(concat(kLeftPrefix, key.substr(kMemberPrefix.size())));
      any_alive = any_alive || (!left && is_alive(identity));
    }
    LOCKSTEP_CHECK_KIND(Usage, any_alive, "file store: ", path_,
                        " is left over from an earlier run, ",
                        "whose processes are gone; remove it, or use another path");
    LOCKSTEP_CHECK_KIND(Usage, members < world_size_, "file store: ", path_, " already has ",
                        members, " ranks of a world size of ", world_size_,
                        "; another run uses it: choose another path, or give all ranks the same "
                        "world size");
  }

  void leave() {
    const std::lock_guard guard(mutex_);
    const FileLock lock(file_.get(), path_);
    read_new_records();
    append(concat(kLeftPrefix, number_), "");
    if (count(kLeftPrefix) == world_size_) ::unlink(path_.c_str());
  }

  int64_t count(std::string_view prefix) const {
    return std::count_if(values_.begin(), values_.end(),
                         [&](const auto& entry) { return entry.first.starts_with(prefix); });
  }

  /// No notification reaches every file system, so this looks: often at first, because the others
  /// are usually about to come, then every few milliseconds.
  std::string wait_for(std::string_view key, Milliseconds timeout) {
    const std::string name = concat(kUserPrefix, key);
    const auto deadline = Clock::now() + timeout;
    std::chrono::microseconds pause{50};
    while (true) {
      {
        const std::lock_guard guard(mutex_);
        const FileLock lock(file_.get(), path_);
        read_new_records();
        const auto found = values_.find(name);
        if (found != values_.end()) return found->second;
      }
      if (Clock::now() >= deadline) throw_store_timeout(key, timeout);
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 5 / 4, std::chrono::microseconds(5000));
    }
  }

  /// Under the lock: whole records only, unless a writer died in the middle of one.
  void read_new_records() {
    struct stat info {};
    LOCKSTEP_CHECK_KIND(Io, ::fstat(file_.get(), &info) == 0, "file store: cannot read ", path_,
                        ": ", strerror(errno));
    if (info.st_size <= position_) return;
    std::string text(static_cast<size_t>(info.st_size - position_), '\0');
    const ssize_t nbytes = ::pread(file_.get(), text.data(), text.size(), position_);
    LOCKSTEP_CHECK_KIND(Io, nbytes == static_cast<ssize_t>(text.size()), "file store: cannot read ",
                        path_, ": ", strerror(errno));
    std::string_view rest = text;
    RecordHead head;
    while (rest.size() >= sizeof(head)) {
      std::memcpy(&head, rest.data(), sizeof(head));
      LOCKSTEP_CHECK_KIND(BadData, head.magic == RecordHead::kMagic, "file store: ", path_,
                          " is not a store; choose another path");
      if (head.value_bytes > rest.size() ||
          sizeof(head) + head.key_bytes + head.value_bytes > rest.size())
        break;
      const size_t nrecord = sizeof(head) + head.key_bytes + head.value_bytes;
      values_.insert_or_assign(
          std::string(rest.substr(sizeof(head), head.key_bytes)),
          std::string(rest.substr(sizeof(head) + head.key_bytes, head.value_bytes)));
      rest.remove_prefix(nrecord);
      position_ += static_cast<off_t>(nrecord);
    }
  }

  /// Under the lock, after read_new_records: overwrites what a dying writer left incomplete.
  void append(const std::string& key, std::string_view value) {
    const RecordHead head{RecordHead::kMagic, static_cast<uint32_t>(key.size()), value.size()};
    std::string record(reinterpret_cast<const char*>(&head), sizeof(head));
    record += key;
    record += value;
    const bool written = ::ftruncate(file_.get(), position_) == 0 &&
                         ::pwrite(file_.get(), record.data(), record.size(), position_) ==
                             static_cast<ssize_t>(record.size());
    LOCKSTEP_CHECK_KIND(Io, written, "file store: cannot write ", path_, ": ", strerror(errno));
    position_ += static_cast<off_t>(record.size());
    values_.insert_or_assign(key, std::string(value));
  }

  std::string path_;
  int world_size_;
  std::mutex mutex_;
  UniqueFd file_;
  int64_t number_ = 0;  ///< this rank's among those that entered
  off_t position_ = 0;  ///< up to here the file is in values_
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path, int world_size) {
  return std::make_shared<FileStore>(path, world_size);
}

}  // namespace lockstep::dist
