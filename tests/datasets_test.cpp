// Data sets from files: MNIST's four files plain and gzipped, CSV, the embedded digits, and the
// messages when something is missing or does not fit.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/data/datasets.h"
#include "tests/temporary_folder.h"

namespace lockstep::test {
namespace {

using data::Dataset;
using data::Split;
using Bytes = std::vector<uint8_t>;

Bytes idx(std::initializer_list<uint8_t> extents, const Bytes& values) {
  Bytes bytes = {0, 0, 8, static_cast<uint8_t>(extents.size())};
  for (const uint8_t extent : extents) bytes.insert(bytes.end(), {0, 0, 0, extent});
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

/// Three training and two test images of 1 x 2 pixels.
void write_small_set(const TemporaryFolder& folder) {
  folder.write("train-images-idx3-ubyte", idx({3, 1, 2}, {0, 255, 10, 20, 30, 40}));
  folder.write("train-labels-idx1-ubyte", idx({3}, {0, 2, 1}));
  folder.write("t10k-images-idx3-ubyte", idx({2, 1, 2}, {1, 2, 3, 4}));
  folder.write("t10k-labels-idx1-ubyte", idx({2}, {2, 0}));
}

template <typename Load>
void refuses(ErrorKind kind, const std::string& reason, Load&& load) {
  CAPTURE(reason);
  try {
    load();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find(reason) != std::string::npos);
  }
}

struct Moments {
  double mean;
  double deviation;
};

/// Of all features of a data set, as a batch shows them.
Moments moments(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  Tensor data = empty({dataset.size(), dataset.num_features()});
  Tensor target = empty({dataset.size()}, DType::Int64);
  dataset.gather(indices, data, target);
  double sum = 0;
  double squares = 0;
  for (const float value : data.to_vector<float>()) {
    sum += value;
    squares += double{value} * value;
  }
  const auto n = static_cast<double>(data.numel());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}

/// Rounding of each value, and of scale and shift, of a few units each.
constexpr double kRounding = 16 * 0x1p-23;

std::vector<int64_t> class_counts(const Dataset& dataset) {
  std::vector<int64_t> counts(static_cast<size_t>(dataset.num_classes()));
  for (const int64_t label : dataset.labels().to_vector<int64_t>()) {
    ++counts[static_cast<size_t>(label)];
  }
  return counts;
}

}  // namespace

TEST_CASE("IDX files of a directory") {
  const TemporaryFolder folder;
  write_small_set(folder);
  const Split split = data::load_idx(folder.path());
  CHECK(split.train.size() == 3);
  CHECK(split.test.size() == 2);
  CHECK(split.train.num_features() == 2);
  CHECK(split.train.num_classes() == 3);
  CHECK(split.train.features().to_vector<uint8_t>() == Bytes{0, 255, 10, 20, 30, 40});
  CHECK(split.test.labels().to_vector<int64_t>() == std::vector<int64_t>{2, 0});
  // The test part is scaled by the training part's numbers.
  CHECK(split.test.scaling().scale == split.train.scaling().scale);
  CHECK(split.test.scaling().shift == split.train.scaling().shift);
  const Moments train = moments(split.train);
  CHECK(std::abs(train.mean) < kRounding);
  CHECK(std::abs(train.deviation - 1) < kRounding);
}

TEST_CASE("missing files are named, all of them") {
  const TemporaryFolder folder;
  write_small_set(folder);
  std::filesystem::remove(folder.file("t10k-images-idx3-ubyte"));
  std::filesystem::remove(folder.file("train-labels-idx1-ubyte"));
  refuses(ErrorKind::Io, "no train-labels-idx1-ubyte, t10k-images-idx3-ubyte (plain or with .gz)",
          [&] { data::load_idx(folder.path()); });
  refuses(ErrorKind::Io, "/nowhere", [] { data::load_idx("/nowhere"); });
  refuses(ErrorKind::Io, "install the package", [] { data::load_fashion_mnist("/nowhere"); });
}

TEST_CASE("IDX files that do not fit are named") {
  const TemporaryFolder folder;
  const auto load = [&] { data::load_idx(folder.path()); };
  write_small_set(folder);
  folder.write("train-labels-idx1-ubyte", idx({2}, {0, 1}));
  refuses(ErrorKind::BadData, "3 images, but 2 labels", load);
  write_small_set(folder);
  folder.write("t10k-labels-idx1-ubyte", idx({2}, {0, 3}));
  refuses(ErrorKind::BadData, "t10k-labels-idx1-ubyte: label 1 is 3, expected 0 to 2", load);
  write_small_set(folder);
  refuses(ErrorKind::BadData, "train-labels-idx1-ubyte: label 1 is 2, expected 0 to 1",
          [&] { data::load_idx(folder.path(), 2); });
  folder.write("t10k-images-idx3-ubyte", idx({2, 1, 1}, {1, 2}));
  refuses(ErrorKind::BadData, "t10k-images-idx3-ubyte: images [2, 1, 1]", load);
  write_small_set(folder);
  folder.write("train-images-idx3-ubyte", idx({3}, {0, 1, 2}));
  refuses(ErrorKind::BadData, "expected images [N, height, width]", load);
  write_small_set(folder);
  folder.write("train-labels-idx1-ubyte", idx({3, 1}, {0, 1, 2}));
  refuses(ErrorKind::BadData, "expected labels [N]", load);
  write_small_set(folder);
  folder.write("t10k-images-idx3-ubyte", idx({9, 1, 2}, {1, 2}));
  refuses(ErrorKind::BadData, "t10k-images-idx3-ubyte: the header says [9, 1, 2]", load);
}

TEST_CASE("CSV: every fifth row is for testing, columns are standardised by the others") {
  const TemporaryFolder folder;
  std::string text = "x,constant,label\n";
  for (int i = 0; i < 10; ++i) {
    text += std::to_string(i * i) + ",7," + std::to_string(i % 3) + "\n";
  }
  const Split split = data::load_csv(folder.write("data.csv", text));
  CHECK(split.train.size() == 8);
  CHECK(split.test.size() == 2);
  CHECK(split.train.num_classes() == 3);
  CHECK(split.test.labels().to_vector<int64_t>() == std::vector<int64_t>{4 % 3, 9 % 3});
  const double rows[] = {0, 1, 4, 9, 25, 36, 49, 64};
  double mean = 0;
  double squares = 0;
  for (const double x : rows) mean += x / 8;
  for (const double x : rows) squares += (x - mean) * (x - mean) / 8;
  const auto test = split.test.features().to_vector<float>();
  CHECK(test[0] == doctest::Approx((16 - mean) / std::sqrt(squares)).epsilon(0x1p-23));
  CHECK(test[1] == 0.0f);
  CHECK(test[2] == doctest::Approx((81 - mean) / std::sqrt(squares)).epsilon(0x1p-23));
}

TEST_CASE("CSV: what is missing or wrong is named") {
  const TemporaryFolder folder;
  refuses(ErrorKind::Io, "none.csv", [&] { data::load_csv(folder.file("none.csv")); });
  refuses(ErrorKind::Io, folder.path(), [&] { data::load_csv(folder.path()); });
  const std::string few = folder.write("few.csv", std::string("1,0\n2,1\n"));
  refuses(ErrorKind::BadData, "2 samples, expected at least 5", [&] { data::load_csv(few); });
  const std::string wrong = folder.write("wrong.csv", std::string("1,0\n2,1\n3,5\n"));
  refuses(ErrorKind::BadData, "wrong.csv, line 3, column 2", [&] { data::load_csv(wrong, 2); });
}

TEST_CASE("the embedded digits") {
  const Split split = data::load_digits();
  CHECK(split.train.size() == 1438);
  CHECK(split.test.size() == 359);
  CHECK(split.train.num_features() == 64);
  CHECK(split.train.num_classes() == 10);
  const auto first = split.train.features().slice(0, 1).to_vector<uint8_t>();
  CHECK(Bytes(first.begin(), first.begin() + 8) == Bytes{0, 0, 5, 13, 9, 1, 0, 0});
  for (const uint8_t pixel : split.train.features().to_vector<uint8_t>()) REQUIRE(pixel <= 16);
  int64_t total = 0;
  for (const int64_t count : class_counts(split.train)) {
    CHECK(count > 100);
    total += count;
  }
  CHECK(total == 1438);
  const Moments train = moments(split.train);
  CHECK(std::abs(train.mean) < kRounding);
  CHECK(std::abs(train.deviation - 1) < kRounding);
}

TEST_CASE("Fashion-MNIST, where it is installed") {
  if (!std::filesystem::is_directory(data::kFashionMnistDirectory)) {
    MESSAGE("skipped: Fashion-MNIST is not installed in ", data::kFashionMnistDirectory);
    return;
  }
  const Split split = data::load_fashion_mnist();
  CHECK(split.train.features().shape() == Shape({60'000, 28, 28}));
  CHECK(split.test.features().shape() == Shape({10'000, 28, 28}));
  CHECK(class_counts(split.train) == std::vector<int64_t>(10, 6'000));
  CHECK(class_counts(split.test) == std::vector<int64_t>(10, 1'000));
  // Mean 0.2860 and deviation 0.3530 of the pixels, as commonly published.
  const double scale = split.train.scaling().scale;
  CHECK(1 / (255 * scale) == doctest::Approx(0.3530).epsilon(0.0002));
  CHECK(-split.train.scaling().shift / (255 * scale) == doctest::Approx(0.2860).epsilon(0.0002));
}

}  // namespace lockstep::test
