// Whole files: read, replaced in one step, and never a device replaced by a file.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/io/file.h"
#include "tests/temporary_folder.h"

namespace lockstep::test {
namespace {

using Bytes = std::vector<uint8_t>;

void write(const std::string& path, const Bytes& first, const Bytes& second) {
  io::replace_file(path, std::vector<std::span<const uint8_t>>{first, second});
}

template <typename Act>
void refuses(const std::string& path, Act&& act) {
  try {
    act();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Io);
    CHECK(std::string(error.what()).find(path) != std::string::npos);
  }
}

int64_t entries(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return std::distance(begin(all), end(all));
}

}  // namespace

TEST_CASE("what was written is read, and replaces what was there") {
  const TemporaryFolder folder;
  const std::string path = folder.file("data");
  write(path, {1, 2}, {3});
  CHECK(io::read_file(path) == Bytes{1, 2, 3});
  write(path, {}, {4});
  CHECK(io::read_file(path) == Bytes{4});
  write(path, {}, {});
  CHECK(io::read_file(path).empty());
  CHECK(entries(folder) == 1);
}

TEST_CASE("what cannot be read or written is named") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  refuses(missing, [&] { (void)io::read_file(missing); });
  refuses(folder.path(), [&] { (void)io::read_file(folder.path()); });
  const std::string nowhere = folder.file("no/folder");
  refuses(nowhere, [&] { write(nowhere, {1}, {}); });
  refuses(folder.path(), [&] { write(folder.path(), {1}, {}); });
}

TEST_CASE("a pipe or a device is not replaced by a file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  refuses(path, [&] { write(path, {1}, {}); });
  CHECK(std::filesystem::is_fifo(path));
  CHECK(entries(folder) == 1);
}

}  // namespace lockstep::test
