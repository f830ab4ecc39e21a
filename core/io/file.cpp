// POSIX file access with errors that name the file.
#include "core/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/fault.h"

namespace lockstep::io {
namespace {

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  LOCKSTEP_THROW(Io, "cannot ", action, " ", path, ": ", std::strerror(error));
}

class File {
 public:
  File(const std::string& path, int flags, const char* action) : path_(path) {
    fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (fd_ < 0) fail(action, path, errno);
  }
  /// Takes over a descriptor; `path` is for messages.
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }

  void write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  void sync() {
    if (::fsync(fd_) != 0) fail("sync", path_, errno);
  }

  void close() {
    if (::close(std::exchange(fd_, -1)) != 0) fail("close", path_, errno);
  }

 private:
  std::string path_;
  int fd_ = -1;
};

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void write_parts(File& file, std::span<const std::span<const uint8_t>> parts) {
  fault_point("temporary-file");
  for (const auto part : parts) file.write(part);
  file.sync();
}

std::string temporary_name(const std::string& path) { return concat(path, ".tmp.", ::getpid()); }

void rename_over(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  fail("write", path, error);
}

// Note [Nothing half written stays]
// The new content has no name until it is complete, so a process that is killed while it writes
// leaves nothing. A file that exists cannot be replaced by a nameless one in one step: then the
// complete content has a temporary name for the moment before it is renamed.

/// False where the file system has no nameless files, or /proc, which gives them names, is missing;
/// what is in the way then shows when a named file is tried.
bool write_nameless(const std::string& path, std::span<const std::span<const uint8_t>> parts) {
  const int fd = ::open(directory_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  File file(path, fd);
  const std::string nameless = concat("/proc/self/fd/", fd);
  if (::access(nameless.c_str(), F_OK) != 0) return false;
  write_parts(file, parts);
  const auto give_name = [&](const std::string& name) {
    return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (give_name(path)) return true;
  if (errno != EEXIST) return false;
  const std::string temporary = temporary_name(path);
  ::unlink(temporary.c_str());  // of a process that had this number and was killed in between
  if (!give_name(temporary)) return false;
  rename_over(temporary, path);
  return true;
}

void write_named(const std::string& path, std::span<const std::span<const uint8_t>> parts) {
  const std::string temporary = temporary_name(path);
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "write");
    write_parts(file, parts);
    file.close();
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  rename_over(temporary, path);
}

}  // namespace

std::vector<uint8_t> read_file(const std::string& path) {
  File file(path, O_RDONLY, "read");
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  LOCKSTEP_CHECK_KIND(Io, S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode), "cannot read ", path,
                      ": it is a device, which may have no end; give a file or a pipe");
  std::vector<uint8_t> bytes(static_cast<size_t>(std::max<off_t>(status.st_size, 0)));
  size_t filled = 0;
  while (true) {
    if (filled == bytes.size())
      bytes.resize(bytes.size() + 4096);  // grows, or has no size (a pipe)
    const ssize_t got = ::read(file.fd(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

void replace_file(const std::string& path, std::span<const std::span<const uint8_t>> parts) {
  // A rename would replace a device such as /dev/null by a file.
  struct stat status {};
  LOCKSTEP_CHECK_KIND(Io, ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode),
                      "cannot write ", path,
                      ": it exists and is not a regular file; choose another path");
  if (!write_nameless(path, parts)) write_named(path, parts);
  File directory(directory_of(path), O_RDONLY | O_DIRECTORY, "sync");
  directory.sync();
}

}  // namespace lockstep::io
