// Unpacking gzip: whole, in members, and every way a file can be broken.
#include <doctest/doctest.h>
#include <zlib.h>

#include <vector>

#include "core/base/error.h"
#include "core/io/gzip.h"
#include "tests/temporary_folder.h"

namespace lockstep::test {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Bytes pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * i >> 3);
  return bytes;
}

void refuses(const Bytes& bytes, const char* reason, int64_t max_nbytes = 1 << 20) {
  CAPTURE(reason);
  try {
    io::gunzip(bytes, "data.gz", max_nbytes);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::BadData);
    CHECK(std::string(error.what()).find("data.gz: ") == 0);
    CHECK(std::string(error.what()).find(reason) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("what was packed comes back") {
  for (const size_t size : {0u, 1u, 1000u, 300'000u}) {
    const Bytes bytes = pattern(size);
    const Bytes packed = gzip(bytes);
    CHECK(io::is_gzip(packed));
    CHECK(io::gunzip(packed, "data.gz") == bytes);
  }
  CHECK_FALSE(io::is_gzip(pattern(10)));
  CHECK_FALSE(io::is_gzip({}));
}

TEST_CASE("several members are one file, and a trailer that lies about the size does not matter") {
  Bytes both = gzip(pattern(5000));
  const Bytes second = gzip(pattern(3));
  both.insert(both.end(), second.begin(), second.end());
  Bytes expected = pattern(5000);
  const Bytes end = pattern(3);
  expected.insert(expected.end(), end.begin(), end.end());
  CHECK(io::gunzip(both, "data.gz") == expected);
}

TEST_CASE("a file cut anywhere is refused") {
  const Bytes packed = gzip(pattern(200));
  for (size_t size = 0; size < packed.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(io::gunzip(std::span(packed).first(size), "cut"), Error);
  }
  refuses(Bytes(packed.begin(), packed.end() - 1), "end too early");
  refuses({0x1f, 0x8b}, "too short");
}

TEST_CASE("damage is found, unless it is in bits that mean nothing") {
  const Bytes bytes = pattern(200);
  const Bytes packed = gzip(bytes);
  constexpr size_t kHeader = 10;
  int unnoticed = 0;
  for (size_t i = kHeader; i < packed.size(); ++i) {
    Bytes damaged = packed;
    damaged[i] ^= 0x10;
    CAPTURE(i);
    try {
      const Bytes unpacked = io::gunzip(damaged, "damaged");
      CHECK(unpacked == bytes);
      ++unnoticed;
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::BadData);
    }
  }
  CHECK(unnoticed <= 1);  // the padding behind the type of a stored block
  Bytes trailing = packed;
  trailing.insert(trailing.end(), {1, 2, 3, 4, 5});
  refuses(trailing, "corrupt gzip data");
}

TEST_CASE("a file that unpacks to too much is refused before it fills the memory") {
  const Bytes packed = gzip(Bytes(2 << 20, 0));
  CHECK(packed.size() < 4096);
  refuses(packed, "more than 1048576 bytes");
  CHECK(io::gunzip(packed, "data.gz", 2 << 20).size() == 2 << 20);
}

TEST_CASE("files plain and packed") {
  const TemporaryFolder folder;
  const Bytes bytes = pattern(777);
  CHECK(io::read_file_or_gzip(folder.write("plain", bytes)) == bytes);
  CHECK(io::read_file_or_gzip(folder.write("packed", gzip(bytes))) == bytes);
  CHECK_THROWS_WITH_AS(io::read_file_or_gzip(folder.file("none")), doctest::Contains("none"),
                       Error);
}

}  // namespace lockstep::test
