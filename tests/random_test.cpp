// Streams of random tensors against values recorded from PyTorch: seed 0 unless said. Checksums are
// over as many as a million values. Every test runs on both paths.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/random.h"
#include "tests/bits.h"
#include "tests/both_paths.h"

namespace lockstep::test {
namespace {

using Bits = std::vector<uint32_t>;
using Integers = std::vector<int64_t>;

const Bits kFirstNormals = {0x3fc53f5c, 0xbe963c50, 0xc00b7149, 0x3f1184b6,
                            0xbf8ad1a1, 0xbfb3052d, 0x3ece837a, 0x3f5688e5};

Bits joined(std::initializer_list<Tensor> tensors) {
  Bits bits;
  for (const Tensor& tensor : tensors) {
    for (const uint32_t value : bits_of(tensor)) bits.push_back(value);
  }
  return bits;
}

Integers integers(const Tensor& tensor) { return tensor.to_vector<int64_t>(); }

}  // namespace

TEST_CASE("raw words and 64-bit draws") {
  Generator generator(0);
  CHECK(generator.random() == 2357136044u);
  generator.manual_seed(0);
  CHECK(random_int64(generator) == 900450186894289455);
  CHECK(random_int64(generator) == 3969543146641149120);
}

TEST_CASE("bulk draws continue the stream at any place") {
  Generator one_by_one(7);
  Generator in_bulk(7);
  for (const size_t count : {1u, 3u, 623u, 0u, 624u, 625u, 2000u, 8u}) {
    std::vector<uint32_t> bulk(count);
    in_bulk.random_fill(bulk);
    for (const uint32_t word : bulk) CHECK(word == one_by_one.random());
  }
  CHECK(in_bulk.random64() == one_by_one.random64());
}

TEST_CASE("uniform tensors") {
  manual_seed(0);
  CHECK(bits_of(rand({8})) == Bits{0x3efe1558, 0x3f44aa2f, 0x3db533a8, 0x3e073300, 0x3e9d6686,
                                   0x3f2252fb, 0x3efaed86, 0x3f657d67});
  manual_seed(0);
  CHECK(crc32(rand({1000, 1000})) == 2894041417u);
  manual_seed(0);
  Tensor thirds = empty({1'000'000});
  uniform_(thirds, -1.0 / 3.0, 1.0 / 3.0);
  CHECK(crc32(thirds) == by_path(1350819164u, 1465343723u));
  manual_seed(0);
  CHECK(rand({3}, DType::Float64).to_vector<double>() ==
        std::vector<double>{0.9700530018065531, 0.707819864399788, 0.45938294312745087});
  manual_seed(0);
  CHECK(crc32(rand({100'000}, DType::Float64)) == 4211865972u);
}

TEST_CASE("fewer than sixteen normals come from pairs, and a half pair waits") {
  manual_seed(0);
  CHECK(bits_of(randn({8})) == kFirstNormals);
  manual_seed(0);
  CHECK(joined({randn({5}), randn({3})}) == kFirstNormals);
  manual_seed(0);
  (void)randn({3});
  (void)randn({16});  // a block neither uses nor forgets what waits
  CHECK(bits_of(randn({1})) == Bits{kFirstNormals[3]});
  manual_seed(0);
  (void)randn({1});
  manual_seed(0);  // seeding does forget it
  CHECK(bits_of(randn({8})) == kFirstNormals);
  manual_seed(0);
  CHECK(randn({4}, DType::Float64).to_vector<double>() ==
        std::vector<double>{1.5409961082440433, -0.2934289057609464, -2.1787893820745574,
                            0.5684312772806678});
}

TEST_CASE("sixteen normals and more come in blocks") {
  manual_seed(0);
  CHECK(bits_of(randn({20})) ==
        by_path(
            Bits{0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255d, 0x3f194d8b, 0xbfc70d5b, 0xbeaec6ca,
                 0x3fed2f4e, 0x3eefaa55, 0xbe217f5f, 0x3fb8c9db, 0x3e8837a1, 0x3fb1d6c0, 0x3fcb0d00,
                 0x3f72409c, 0xbf57fb33, 0x3f6e8c30, 0x3fa12737, 0x4000519a, 0x3d5c1b3a},
            Bits{0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255e, 0x3f194d8b, 0xbfc70d5b, 0xbeaec6c7,
                 0x3fed2f4e, 0x3eefaa55, 0xbe217f5f, 0x3fb8c9db, 0x3e8837a1, 0x3fb1d6c0, 0x3fcb0d01,
                 0x3f72409c, 0xbf57fb34, 0x3f6e8c31, 0x3fa12737, 0x4000519a, 0x3d5c1b39}));
  manual_seed(0);
  CHECK(crc32(randn({1'000'000})) == by_path(1928702606u, 47744126u));
  manual_seed(0);
  Tensor odd = empty({1'000'003});
  normal_(odd, 0.5, 0.02);
  CHECK(crc32(odd) == by_path(3504868273u, 3604214852u));
  manual_seed(0);
  CHECK(crc32(randn({100'000}, DType::Float64)) == 1246546432u);
}

TEST_CASE("the recorded training data") {
  manual_seed(1234);
  const Tensor data = randn({64, 8});
  const Integers targets = integers(randint(0, 4, {64}));
  CHECK(crc32(data) == by_path(499799288u, 2688495007u));
  CHECK(Integers(targets.begin(), targets.begin() + 8) == Integers{2, 1, 2, 1, 2, 2, 2, 1});
}

TEST_CASE("normals of the 16-bit types have the moments of a normal distribution") {
  constexpr int64_t kCount = 100'000;
  for (const DType dtype : {DType::Float16, DType::BFloat16}) {
    manual_seed(0);
    const auto values = randn({kCount}, dtype).to(DType::Float64).to_vector<double>();
    double sum = 0;
    double squares = 0;
    for (const double value : values) {
      REQUIRE(std::isfinite(value));
      sum += value;
      squares += value * value;
    }
    // Five standard errors, and what rounding the uniforms to 8 bits may shift a moment by.
    const double error = 5.0 / std::sqrt(static_cast<double>(kCount)) + 0x1p-7;
    CAPTURE(dtype_name(dtype));
    CHECK(std::abs(sum / kCount) < error);
    CHECK(std::abs(squares / kCount - 1.0) < error * std::sqrt(2.0));
  }
}

TEST_CASE("integers by remainder, from 64 bits for wide ranges") {
  manual_seed(0);
  CHECK(integers(randint(0, 10, {10})) == Integers{4, 9, 3, 0, 3, 9, 7, 3, 7, 3});
  CHECK(integers(randint(0, int64_t{1} << 33, {3})) == Integers{5945874162, 1277901399, 243580376});
  CHECK(integers(randint(0, 1 << 30, {3})) == Integers{917674584, 97308044, 573126970});
  manual_seed(0);
  CHECK(integers(randint(0, 1000, {5})) == Integers{44, 239, 933, 760, 963});
  CHECK(integers(randint(-5, 5, {6})) == Integers{4, 2, -2, 2, -2, -4});
  manual_seed(0);
  CHECK(crc32(randint(0, 1000, {100'000})) == 2745129952u);
  manual_seed(0);
  CHECK(integers(randint(0, int64_t{1} << 31, {3})) == Integers{209652396, 398764591, 924231285});
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  const int64_t highest = std::numeric_limits<int64_t>::max();
  for (const int64_t value : integers(randint(lowest, highest, {100}))) CHECK(value < highest);
}

TEST_CASE("permutations") {
  manual_seed(0);
  CHECK(integers(randperm(10)) == Integers{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  manual_seed(0);
  CHECK(crc32(randperm(100'000)) == 3571348916u);
  CHECK(integers(randperm(1)) == Integers{0});
  CHECK(randperm(0).numel() == 0);
}

TEST_CASE("other seeds") {
  manual_seed(42);
  CHECK(rand({4}).to(DType::Float64).to_vector<double>() ==
        std::vector<double>{0.8822692632675171, 0.9150039553642273, 0.38286375999450684,
                            0.9593056440353394});
  CHECK(integers(randperm(10)) == Integers{6, 3, 0, 8, 1, 4, 5, 2, 7, 9});
  manual_seed(static_cast<uint64_t>(-1));
  CHECK(default_generator().initial_seed() == 18446744073709551615u);
  CHECK(rand({1}).item() == 0.9937993884086609);
  manual_seed(uint64_t{1} << 32);  // only the low 32 bits count: seed 0
  CHECK(rand({1}).item() == 0.49625658988952637);
}

TEST_CASE("Bernoulli draws in every dtype") {
  const std::vector<double> expected = {0, 0, 1, 0, 0, 0, 1, 1, 0, 1};
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                            DType::Int64, DType::UInt8}) {
    manual_seed(0);
    Tensor draws = empty({10}, dtype);
    bernoulli_(draws, 0.5);
    CHECK(draws.to(DType::Float64).to_vector<double>() == expected);
  }
}

TEST_CASE("a saved state continues the stream, the waiting normal included") {
  Generator generator(3);
  (void)randn({3}, DType::Float32, &generator);
  const auto state = generator.state();
  const Bits expected =
      joined({randn({5}, DType::Float32, &generator), randn({700}, DType::Float32, &generator)});
  Generator other(99);
  other.set_state(state);
  CHECK(other.initial_seed() == 3);
  CHECK(joined({randn({5}, DType::Float32, &other), randn({700}, DType::Float32, &other)}) ==
        expected);
}

TEST_CASE("a state that no generator can have is refused and changes nothing") {
  Generator generator(3);
  const auto good = generator.state();
  const auto refuses = [&](std::vector<uint8_t> state) {
    CHECK_THROWS_AS(generator.set_state(state), Error);
    CHECK(generator.state() == good);
  };
  refuses({});
  refuses(std::vector<uint8_t>(good.begin(), good.end() - 1));
  refuses(std::vector<uint8_t>(good.size(), 0));
  const size_t words = good.size() - 4 * Generator::kStateWords;  // where the words begin
  auto all_zero = good;
  all_zero.resize(words);
  all_zero.resize(good.size());
  refuses(all_zero);
  auto beyond = good;
  for (size_t i = words - 4; i < words; ++i) beyond[i] = 255;
  refuses(beyond);
}

TEST_CASE("bad arguments name the operation") {
  Tensor integers = empty({3}, DType::Int64);
  CHECK_THROWS_WITH_AS(uniform_(integers), doctest::Contains("uniform_"), Error);
  CHECK_THROWS_WITH_AS(normal_(integers), doctest::Contains("normal_"), Error);
  Tensor floats = empty({3});
  CHECK_THROWS_AS(uniform_(floats, 1.0, 0.0), Error);
  CHECK_THROWS_AS(normal_(floats, 0.0, -1.0), Error);
  CHECK_THROWS_AS(bernoulli_(floats, 1.5), Error);
  CHECK_THROWS_AS(randint(3, 3, {1}), Error);
  CHECK_THROWS_AS(randperm(-1), Error);
  Tensor parameter = zeros({3}).requires_grad_();
  CHECK_THROWS_WITH_AS(normal_(parameter), doctest::Contains("NoGradGuard"), Error);
  CHECK(parameter.to_vector<float>() == std::vector<float>{0, 0, 0});
}

TEST_CASE("filling counts as a write") {
  Tensor tensor = empty({3});
  const uint64_t before = tensor.storage().version();
  normal_(tensor);
  CHECK(tensor.storage().version() > before);
}

TEST_CASE("all of it on the portable path") {
  if (!is_avx2_path()) {
    MESSAGE("skipped: this process runs the portable path already");
    return;
  }
  CHECK(passes_on_portable_path("all of it on the portable path"));
}

}  // namespace lockstep::test
