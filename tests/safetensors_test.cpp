// Safetensors: what is written is read back bit for bit; what is broken is refused in one line.
#include "core/io/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/io/file.h"
#include "core/random.h"
#include "tests/temporary_folder.h"

using namespace lockstep;
using lockstep::test::TemporaryFolder;

namespace {

std::vector<uint8_t> file_bytes(const std::string& header, size_t data_bytes) {
  std::vector<uint8_t> bytes(8);
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(header.size() >> (8 * i));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + data_bytes);
  return bytes;
}

std::string refusal(const std::vector<uint8_t>& bytes) {
  try {
    io::parse_safetensors(bytes, "model.safetensors");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::BadData);
    return error.what();
  }
  return "accepted";
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.numel() == 0 ||
          std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0);
}

}  // namespace

TEST_CASE("every dtype comes back bit for bit, whatever the order") {
  const TemporaryFolder directory;
  manual_seed(1);
  const io::Metadata metadata{{"format", "lockstep"}, {"quote", "a \"b\"\n"}};
  const io::NamedTensors written{{"bytes", randint(0, 256, {3}).to(DType::UInt8)},
                                 {"half", randn({5}).to(DType::Float16)},
                                 {"0.weight", randn({2, 3})},
                                 {"empty", empty({0, 4})},
                                 {"scalar", full({}, 0.1, DType::Float64)},
                                 {"brain", randn({3}).to(DType::BFloat16)},
                                 {"steps", randint(-9, 9, {2, 1, 2})}};
  io::save_safetensors(directory.file("a"), written, metadata);
  io::Metadata strings;
  const io::NamedTensors read = io::load_safetensors(directory.file("a"), &strings);
  CHECK(strings == metadata);
  REQUIRE(read.size() == written.size());
  for (const auto& [name, tensor] : written) {
    bool found = false;
    for (const auto& [other, copy] : read) {
      if (other == name) found = same_bytes(tensor, copy);
    }
    CHECK_MESSAGE(found, name);
  }
}

TEST_CASE("writing leaves one file, and a failed write leaves what was there") {
  const TemporaryFolder directory;
  io::save_safetensors(directory.file("a"), {{"x", ones({2})}});
  CHECK_THROWS_WITH_AS(
      io::save_safetensors(directory.file("a"), {{"x", ones({2})}, {"x", ones({2})}}),
      "save_safetensors: the name \"x\" is given twice or reserved", Error);
  CHECK(io::load_safetensors(directory.file("a")).size() == 1);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path()))
    ++files;
  CHECK(files == 1);
  try {
    io::save_safetensors(directory.file("missing/a"), {{"x", ones({2})}});
    FAIL("a missing directory was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Io);
    CHECK(std::string(error.what()).find("missing/a") != std::string::npos);
  }
}

TEST_CASE("a missing file is an input/output error that names it") {
  try {
    io::load_safetensors("/nonexistent/model.safetensors");
    FAIL("a missing file was read");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Io);
    const std::string message = error.what();
    CHECK(message.find("/nonexistent/model.safetensors: No such file") != std::string::npos);
  }
}

TEST_CASE("a file cut at any byte is refused") {
  const TemporaryFolder directory;
  io::save_safetensors(directory.file("a"), {{"x", ones({3})}, {"y", ones({2}, DType::Int64)}});
  const std::vector<uint8_t> whole = io::read_file(directory.file("a"));
  CHECK(refusal(whole) == "accepted");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<uint8_t> cut(whole.begin(),
                                   whole.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_MESSAGE(refusal(cut) != "accepted", size);
  }
}

TEST_CASE("headers that lie are refused with what is wrong") {
  const auto contains = [](const std::string& header, size_t data, const char* expected) {
    const std::string message = refusal(file_bytes(header, data));
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
    CHECK(message.find("model.safetensors: ") == 0);
  };
  contains("[1]", 0, "not a JSON object");
  contains("{\"a\":", 0, "not a JSON object");
  contains(std::string(50'000, '['), 0, "not a JSON object");
  contains("{\"a\":3}", 0, "does not describe a tensor");
  contains(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1, "dtype");
  contains(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "extent");
  contains(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "shape");
  contains(
      R"({"a":{"dtype":"F32","shape":[281474976710656,281474976710656],"data_offsets":[0,4]}})", 4,
      "overflow");
  contains(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "data_offsets");
  contains(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "of 4");
  contains(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "has 4 bytes");
  contains(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "lies at bytes 4 to 0");
  contains(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "begins at byte 4");
  contains(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "have 4 bytes");
  contains(R"({"__metadata__":{"a":1}})", 0, "is not a string");
  contains(R"({"__metadata__":[]})", 0, "__metadata__");
  std::vector<uint8_t> absurd(8, 0xff);
  CHECK(refusal(absurd).find("its header claims") != std::string::npos);
}
