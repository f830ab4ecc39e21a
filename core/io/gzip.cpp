// gzip by way of zlib's inflate: the size at the end of the file is a hint, never trusted.
#include "core/io/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/io/file.h"

namespace lockstep::io {
namespace {

constexpr size_t kSmallestGzip = 18;  // ten bytes of header, eight of trailer
constexpr int64_t kBestRatio = 1032;  // deflate cannot pack more into a byte
constexpr int kGzipOnly = 16 + MAX_WBITS;

class Inflater {
 public:
  Inflater() {
    LOCKSTEP_CHECK(inflateInit2(&stream, kGzipOnly) == Z_OK, "gunzip: zlib refused to start");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

/// A first guess of the unpacked size: what the trailer says, within what is possible.
size_t expected_size(std::span<const uint8_t> bytes, int64_t max_nbytes) {
  const auto trailer = bytes.last(4);
  int64_t size = 0;
  for (size_t i = 4; i-- > 0;) size = size << 8 | trailer[i];
  const int64_t possible = static_cast<int64_t>(bytes.size()) * kBestRatio;
  // One more byte than allowed, so that exceeding the limit shows.
  return static_cast<size_t>(std::min({size, possible, max_nbytes})) + 1;
}

}  // namespace

bool is_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& name,
                            int64_t max_nbytes) {
  LOCKSTEP_CHECK_KIND(BadData, bytes.size() >= kSmallestGzip, name, ": ", bytes.size(),
                      " bytes, too short for a gzip file; copy it again");
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::vector<uint8_t> unpacked(expected_size(bytes, max_nbytes));
  size_t used = 0;
  size_t done = 0;
  while (used < bytes.size()) {
    if (done == unpacked.size()) {
      unpacked.resize(std::min(done * 2, static_cast<size_t>(max_nbytes) + 1));
    }
    // zlib counts in 32 bits: large files go in pieces.
    constexpr size_t kPiece = size_t{1} << 30;
    stream.next_in = const_cast<Bytef*>(bytes.data() + used);
    stream.avail_in = static_cast<uInt>(std::min(bytes.size() - used, kPiece));
    stream.next_out = unpacked.data() + done;
    stream.avail_out = static_cast<uInt>(std::min(unpacked.size() - done, kPiece));
    const int status = inflate(&stream, Z_NO_FLUSH);
    used = static_cast<size_t>(stream.next_in - bytes.data());
    done = static_cast<size_t>(stream.next_out - unpacked.data());
    LOCKSTEP_CHECK_KIND(BadData, done <= static_cast<size_t>(max_nbytes), name,
                        ": unpacks to more than ", max_nbytes, " bytes; it is no data set");
    if (status == Z_STREAM_END) {
      if (used == bytes.size()) {
        unpacked.resize(done);
        return unpacked;
      }
      inflateReset(&stream);  // another member follows
      continue;
    }
    LOCKSTEP_CHECK_KIND(BadData, status == Z_OK || (status == Z_BUF_ERROR && stream.avail_out == 0),
                        name, ": corrupt gzip data near byte ", used, " (",
                        stream.msg != nullptr ? stream.msg : "unexpected data",
                        "); copy the file again");
  }
  LOCKSTEP_THROW(BadData, name, ": the gzip data end too early, after ", bytes.size(),
                 " bytes; copy the file again");
}

std::vector<uint8_t> read_file_or_gzip(const std::string& path) {
  std::vector<uint8_t> bytes = read_file(path);
  return is_gzip(bytes) ? gunzip(bytes, path) : bytes;
}

}  // namespace lockstep::io
