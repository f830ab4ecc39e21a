// Data sets in memory: scaling, gathering, and what the constructor refuses.
#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/data/dataset.h"
#include "core/random.h"

namespace lockstep::test {
namespace {

using data::Dataset;
using data::Scaling;

/// n samples of `width` bytes, all different near the beginning and the end of a row.
Tensor bytes(int64_t n, int64_t width) {
  std::vector<uint8_t> values(static_cast<size_t>(n * width));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 37 % 256);
  return Tensor::from_values(values, {n, width});
}

Tensor labels(std::initializer_list<int64_t> values) {
  return Tensor::from_values(std::vector<int64_t>(values), {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("bytes are scaled, with two roundings, whatever the width") {
  const Scaling scaling{0.0111085f, -0.810258f};
  for (const int64_t width : {1, 7, 8, 31, 32, 33, 64, 784}) {
    const Dataset dataset(bytes(4, width), labels({0, 1, 2, 1}), 3, scaling);
    Tensor data = empty({3, width});
    Tensor target = empty({3}, DType::Int64);
    const std::vector<int64_t> indices = {3, 0, 3};
    dataset.gather(indices, data, target);
    CHECK(target.to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
    const auto actual = data.to_vector<float>();
    const auto source = dataset.features().to_vector<uint8_t>();
    size_t i = 0;
    for (const int64_t index : indices) {
      for (int64_t j = 0; j < width; ++j) {
        const float product =
            static_cast<float>(source[static_cast<size_t>(index * width + j)]) * scaling.scale;
        CHECK(actual[i++] == product + scaling.shift);
      }
    }
  }
}

TEST_CASE("floats are taken as they are, and rows may have any shape") {
  manual_seed(0);
  const Tensor features = randn({5, 2, 3});
  const Dataset dataset(features, labels({0, 1, 0, 1, 0}), 2);
  CHECK(dataset.size() == 5);
  CHECK(dataset.num_features() == 6);
  Tensor data = empty({2, 6});
  Tensor target = empty({2}, DType::Int64);
  dataset.gather(std::vector<int64_t>{4, 1}, data, target);
  const auto all = features.to_vector<float>();
  std::vector<float> expected(all.begin() + 24, all.end());
  expected.insert(expected.end(), all.begin() + 6, all.begin() + 12);
  CHECK(data.to_vector<float>() == expected);
}

TEST_CASE("standard scaling gives mean 0 and deviation 1") {
  std::vector<uint8_t> values(1001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * i % 251);
  const Scaling scaling = data::standard_scaling(values);
  double sum = 0;
  double squares = 0;
  for (const uint8_t value : values) {
    const double scaled = double{scaling.scale} * value + double{scaling.shift};
    sum += scaled;
    squares += scaled * scaled;
  }
  const auto n = static_cast<double>(values.size());
  // Scale and shift are rounded to float; the values reach 255 * scale, a few units.
  CHECK(std::abs(sum / n) < 4 * 0x1p-23);
  CHECK(std::abs(squares / n - 1) < 16 * 0x1p-23);
}

TEST_CASE("standard scaling of equal bytes is finite and maps them to 0") {
  for (const double largest : {16.0, 255.0}) {
    const Scaling scaling = data::standard_scaling(std::vector<uint8_t>(10, 7), largest);
    CHECK(std::abs(7.0f * scaling.scale + scaling.shift) <= 7 / largest * 0x1p-23);
  }
  CHECK(data::standard_scaling({}).shift == 0.0f);
}

TEST_CASE("a batch counts as a write") {
  const Dataset dataset(bytes(2, 3), labels({0, 1}), 2);
  Tensor data = empty({1, 3});
  Tensor target = empty({1}, DType::Int64);
  const uint64_t before = data.storage().version();
  dataset.gather(std::vector<int64_t>{1}, data, target);
  CHECK(data.storage().version() > before);
}

TEST_CASE("what does not fit is refused") {
  CHECK_THROWS_WITH_AS(Dataset(bytes(2, 3), labels({0, 2}), 2), doctest::Contains("sample 1"),
                       Error);
  CHECK_THROWS_AS(Dataset(bytes(2, 3), labels({0, -1}), 2), Error);
  CHECK_THROWS_AS(Dataset(bytes(2, 3), labels({0}), 2), Error);
  CHECK_THROWS_AS(Dataset(bytes(2, 3).to(DType::Float64), labels({0, 1}), 2), Error);
  CHECK_THROWS_AS(Dataset(bytes(2, 3), labels({0, 1}).to(DType::Float32), 2), Error);
  CHECK_THROWS_AS(Dataset(Tensor(), labels({0, 1}), 2), Error);
  const Dataset dataset(bytes(2, 3), labels({0, 1}), 2);
  Tensor data = empty({1, 3});
  Tensor target = empty({1}, DType::Int64);
  CHECK_THROWS_AS(dataset.gather(std::vector<int64_t>{2}, data, target), Error);
  CHECK_THROWS_AS(dataset.gather(std::vector<int64_t>{-1}, data, target), Error);
  CHECK_THROWS_AS(dataset.gather(std::vector<int64_t>{0, 1}, data, target), Error);
}

}  // namespace lockstep::test
