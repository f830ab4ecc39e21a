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

}  // namespace

std::vector<uint8_t> read_file(const std::string& path) {
  File file(path, O_RDONLY, "read");
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
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
  const std::string temporary = concat(path, ".tmp.", ::getpid());
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "write");
    for (const auto part : parts) file.write(part);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  File directory(directory_of(path), O_RDONLY | O_DIRECTORY, "sync");
  directory.sync();
}

}  // namespace lockstep::io
