// The IDX parser: what it reads, and that everything else is one clear error.
#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
#include "core/data/idx.h"

namespace lockstep::test {
namespace {

using Bytes = std::vector<uint8_t>;

/// Two images of 2 x 3 pixels.
const Bytes kImages = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                       0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

void refuses(const Bytes& bytes, const char* expected) {
  CAPTURE(expected);
  try {
    data::parse_idx(bytes, "images.idx");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::BadData);
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find("images.idx") == 0);
    CHECK(message.find(expected) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

Bytes with(size_t offset, uint8_t byte) {
  Bytes bytes = kImages;
  bytes[offset] = byte;
  return bytes;
}

}  // namespace

TEST_CASE("images and labels") {
  const auto images = data::parse_idx(kImages, "images.idx");
  CHECK(images.shape == Shape({2, 2, 3}));
  CHECK(images.values.data() == kImages.data() + 16);
  CHECK(images.values.size() == 12);
  const Bytes labels = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
  CHECK(data::parse_idx(labels, "labels.idx").shape == Shape({2}));
  const Bytes none = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 5};
  CHECK(data::parse_idx(none, "none.idx").shape == Shape({0, 5}));
}

TEST_CASE("a file cut at any byte, or with one more, is refused") {
  for (size_t size = 0; size < kImages.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(data::parse_idx(std::span(kImages).first(size), "cut"), Error);
  }
  Bytes longer = kImages;
  longer.push_back(0);
  refuses(longer, "longer");
  refuses(Bytes(kImages.begin(), kImages.end() - 1), "truncated");
  refuses(Bytes(kImages.begin(), kImages.begin() + 9), "header");
  refuses({}, "too short");
}

TEST_CASE("headers that lie are refused with what is wrong") {
  refuses(with(0, 0x1f), "no IDX file");
  refuses(with(2, 0x0d), "element type");
  refuses(with(3, 0), "number of dimensions");
  refuses(with(3, 5), "number of dimensions");
  refuses(with(7, 3), "truncated");
  // Products that overflow 64 bits, also behind an extent of zero.
  refuses({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, "extent 1");
  refuses({0, 0, 8, 3, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, "extent 2");
}

}  // namespace lockstep::test
