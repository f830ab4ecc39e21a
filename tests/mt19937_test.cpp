// The random kernels on both paths, called explicitly: the words against the standard library's
// generator, the floats against values and checksums recorded from PyTorch with seed 0.
#include <doctest/doctest.h>

#include <array>
#include <random>

#include "core/base/dtype.h"
#include "kernels/random.h"
#include "tests/bits.h"
#include "tests/both_paths.h"

namespace lockstep::test {
namespace {

using kernels::cpu::kMt19937Words;

constexpr int64_t kMillion = 1'000'000;

/// Both paths where this CPU has both.
std::vector<CpuCapability> paths() {
  if (is_avx2_path()) return {CpuCapability::Default, CpuCapability::Avx2};
  MESSAGE("skipped: the AVX2 path, which this process may not run");
  return {CpuCapability::Default};
}

bool is_avx2(CpuCapability path) { return path == CpuCapability::Avx2; }

std::vector<uint32_t> words(size_t count, uint32_t seed = 0) {
  std::mt19937 engine(seed);
  std::vector<uint32_t> result(count);
  for (uint32_t& word : result) word = static_cast<uint32_t>(engine());
  return result;
}

std::vector<float> uniforms(int64_t n, CpuCapability path, float range = 1, float from = 0) {
  std::vector<float> values(static_cast<size_t>(n));
  kernels::cpu::uniform<float>(values.data(), words(values.size()).data(), n, range, from, path);
  return values;
}

std::vector<float> normals(int64_t n, CpuCapability path) {
  std::vector<float> values = uniforms(n, path);
  kernels::cpu::normal_from_uniform<float>(values.data(), n, 0.0f, 1.0f, path);
  return values;
}

uint32_t checksum(const std::vector<float>& values) {
  return crc32(values.data(), values.size() * sizeof(float));
}

}  // namespace

TEST_CASE("twist and temper give the words of the standard generator") {
  // Tempering is a bijection, so equal words for many twists mean equal states.
  constexpr int kTwists = 7;
  for (const uint32_t seed : {0u, 1u, 5489u, 0xffffffffu}) {
    const auto expected = words(kTwists * kMt19937Words, seed);
    for (const CpuCapability path : paths()) {
      std::array<uint32_t, kMt19937Words> state;
      state[0] = seed;
      for (uint32_t i = 1; i < state.size(); ++i) {
        state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
      }
      std::vector<uint32_t> actual(expected.size());
      for (int twist = 0; twist < kTwists; ++twist) {
        kernels::cpu::mt19937_twist(state.data(), path);
        kernels::cpu::mt19937_temper(actual.data() + twist * kMt19937Words, state.data(),
                                     kMt19937Words, path);
      }
      CAPTURE(seed);
      CAPTURE(is_avx2(path));
      CHECK(actual == expected);
    }
  }
}

TEST_CASE("tempering any number of words touches no other") {
  const auto state = words(70);
  for (const CpuCapability path : paths()) {
    for (size_t n = 0; n <= 40; ++n) {
      std::vector<uint32_t> output(n + 1, 77u);
      kernels::cpu::mt19937_temper(output.data(), state.data() + 3, static_cast<int64_t>(n), path);
      std::vector<uint32_t> whole(state.size());
      kernels::cpu::mt19937_temper(whole.data(), state.data(), 70, CpuCapability::Default);
      CHECK(std::equal(output.begin(), output.end() - 1, whole.begin() + 3));
      CHECK(output.back() == 77u);
    }
  }
}

TEST_CASE("uniform floats are those of PyTorch") {
  const std::vector<uint32_t> first = {0x3efe1558, 0x3f44aa2f, 0x3db533a8, 0x3e073300,
                                       0x3e9d6686, 0x3f2252fb, 0x3efaed86, 0x3f657d67};
  const float bound = static_cast<float>(1.0 / 3.0);
  for (const CpuCapability path : paths()) {
    CAPTURE(is_avx2(path));
    CHECK(bits_of(uniforms(8, path)) == first);
    CHECK(checksum(uniforms(kMillion, path)) == 2894041417u);
    const uint32_t expected = is_avx2(path) ? 1350819164u : 1465343723u;
    CHECK(checksum(uniforms(kMillion, path, bound + bound, -bound)) == expected);
  }
}

TEST_CASE("normal floats are those of PyTorch") {
  const std::vector<uint32_t> avx2 = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255d,
                                      0x3f594515, 0x3f312783, 0xbea1cc6d, 0xc0075fc1,
                                      0x3ea50138, 0xbfa1b4f4, 0x3eb330ff, 0x3e9dc3bb,
                                      0x3df56f77, 0x3f9e6b93, 0x3f8ef28e, 0xbe7d367c};
  const std::vector<uint32_t> portable = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255e,
                                          0x3f594515, 0x3f312784, 0xbea1cc6d, 0xc0075fc2,
                                          0x3ea50138, 0xbfa1b4f4, 0x3eb330ff, 0x3e9dc3ba,
                                          0x3df56f77, 0x3f9e6b93, 0x3f8ef28e, 0xbe7d365a};
  for (const CpuCapability path : paths()) {
    CAPTURE(is_avx2(path));
    CHECK(bits_of(normals(16, path)) == (is_avx2(path) ? avx2 : portable));
    const auto million = normals(kMillion, path);
    CHECK(checksum(million) == (is_avx2(path) ? 1928702606u : 47744126u));
    double sum = 0;
    for (const float value : million) sum += value;
    // The recorded sum was taken in another order: each of 10^6 additions rounds a sum below 2^12.
    const double expected = is_avx2(path) ? -1561.4529594577189 : -1561.470832377769;
    CHECK(std::abs(sum - expected) < 1e6 * 0x1p-42);
  }
}

TEST_CASE("the extreme uniforms become finite normals") {
  for (const CpuCapability path : paths()) {
    std::vector<float> data(16, 0.0f);
    data[1] = 1.0f - 0x1p-24f;  // the largest uniform: the largest radius
    data[9] = 0.0f;
    data[2] = 1.0f - 0x1p-24f;
    data[10] = 1.0f - 0x1p-24f;
    kernels::cpu::normal_from_uniform<float>(data.data(), 16, 0.0f, 1.0f, path);
    CAPTURE(is_avx2(path));
    CHECK(data[0] == 0.0f);
    // sqrt(-2 ln 2^-24) = sqrt(48 ln 2); four roundings of half an ulp each at most.
    CHECK(data[1] == doctest::Approx(5.768108).epsilon(4 * 0x1p-24));
    for (const float value : data) CHECK(std::isfinite(value));
  }
}

TEST_CASE("uniforms of the narrow types take their low bits") {
  const std::vector<float> half = {.333984375f,   .27294921875f, .80712890625f, .59375f,
                                   .40771484375f, .37255859375f, .84521484375f, .67529296875f};
  const std::vector<float> bfloat16 = {.671875f,   .18359375f, .45703125f, .75f,
                                       .26171875f, .98046875f, .76171875f, .40234375f};
  const auto raw = words(8);
  for (const CpuCapability path : paths()) {
    std::vector<Half> halves(8);
    kernels::cpu::uniform<Half>(halves.data(), raw.data(), 8, Half(1.0f), Half(0.0f), path);
    std::vector<BFloat16> brains(8);
    kernels::cpu::uniform<BFloat16>(brains.data(), raw.data(), 8, BFloat16(1.0f), BFloat16(0.0f),
                                    path);
    for (size_t i = 0; i < 8; ++i) {
      CHECK(static_cast<float>(halves[i]) == half[i]);
      CHECK(static_cast<float>(brains[i]) == bfloat16[i]);
    }
  }
}

}  // namespace lockstep::test
