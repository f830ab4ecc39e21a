// From files to data sets: unpack, parse, split, normalise.
#include "core/data/datasets.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/csv.h"
#include "core/data/embedded.h"
#include "core/data/idx.h"
#include "core/io/gzip.h"

namespace lockstep::data {
namespace {

/// Rows of a CSV file that are in the test part.
constexpr bool is_test_row(int64_t row) { return row % 5 == 4; }

/// A file's array; the tensor uses the file's bytes in place.
Tensor load_idx_file(const std::string& path) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(io::read_file_or_gzip(path));
  const IdxArray array = parse_idx(*bytes, path);
  const auto offset = static_cast<int64_t>(array.values.data() - bytes->data());
  Storage storage =
      Storage::borrow(bytes->data(), static_cast<int64_t>(bytes->size()), kCPU, bytes);
  return Tensor::from_storage(std::move(storage), offset, array.shape, DType::UInt8);
}

/// `stem` or `stem`.gz in the directory; empty when there is neither.
std::string find_file(const std::string& directory, const std::string& stem) {
  for (const char* ending : {"", ".gz"}) {
    const std::filesystem::path path = std::filesystem::path(directory) / (stem + ending);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

struct IdxPart {
  std::string image_path;
  std::string label_path;
  Tensor images;  ///< [N, ...] UInt8
  Tensor labels;  ///< [N] Int64
};

void check_labels(const IdxPart& part, int64_t num_classes) {
  const int64_t* labels = part.labels.data<int64_t>();
  for (int64_t i = 0; i < part.labels.numel(); ++i) {
    LOCKSTEP_CHECK_KIND(BadData, labels[i] < num_classes, part.label_path, ": label ", i, " is ",
                        labels[i], ", expected 0 to ", num_classes - 1,
                        "; check the file and the number of classes");
  }
}

IdxPart load_part(const std::string& image_path, const std::string& label_path) {
  IdxPart part{image_path, label_path, load_idx_file(image_path),
               load_idx_file(label_path).to(DType::Int64)};
  LOCKSTEP_CHECK_KIND(BadData, part.images.dim() >= 2 && part.images.numel() > 0, image_path,
                      ": an array of shape ", part.images.shape(),
                      ", expected images [N, height, width]; check the path");
  LOCKSTEP_CHECK_KIND(BadData, part.labels.dim() == 1, label_path, ": an array of shape ",
                      part.labels.shape(), ", expected labels [N]; check the path");
  LOCKSTEP_CHECK_KIND(BadData, part.labels.numel() == part.images.size(0), image_path, ": ",
                      part.images.size(0), " images, but ", part.labels.numel(), " labels in ",
                      label_path, "; the files do not belong together");
  return part;
}

/// Subtracts each column's mean over `train` and divides by its deviation (1 when it is constant).
void standardise_columns(std::vector<float>& train, std::vector<float>& test, int64_t columns) {
  const auto width = static_cast<size_t>(columns);
  const double rows = static_cast<double>(train.size() / width);
  for (size_t column = 0; column < width; ++column) {
    double sum = 0;
    for (size_t i = column; i < train.size(); i += width) sum += train[i];
    const double mean = sum / rows;
    double squares = 0;
    for (size_t i = column; i < train.size(); i += width) {
      squares += (train[i] - mean) * (train[i] - mean);
    }
    const double deviation = squares > 0 ? std::sqrt(squares / rows) : 1.0;
    for (auto* part : {&train, &test}) {
      for (size_t i = column; i < part->size(); i += width) {
        (*part)[i] = static_cast<float>(((*part)[i] - mean) / deviation);
      }
    }
  }
}

struct Rows {
  std::vector<float> features;
  std::vector<int64_t> labels;
};

std::pair<Rows, Rows> split_rows(const CsvTable& table) {
  std::pair<Rows, Rows> parts;
  const auto rows = static_cast<int64_t>(table.labels.size());
  for (int64_t row = 0; row < rows; ++row) {
    Rows& part = is_test_row(row) ? parts.second : parts.first;
    const auto first = table.features.begin() + row * table.num_features;
    part.features.insert(part.features.end(), first, first + table.num_features);
    part.labels.push_back(table.labels[static_cast<size_t>(row)]);
  }
  return parts;
}

Dataset make_dataset(const Rows& rows, int64_t columns, int64_t num_classes) {
  const auto n = static_cast<int64_t>(rows.labels.size());
  return {Tensor::from_values(rows.features, {n, columns}), Tensor::from_values(rows.labels, {n}),
          num_classes};
}

}  // namespace

Split load_idx(const std::string& directory, int64_t num_classes) {
  std::vector<std::string> paths;
  std::string missing;
  for (const char* stem : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    paths.push_back(find_file(directory, stem));
    if (paths.back().empty()) missing += (missing.empty() ? "" : ", ") + std::string(stem);
  }
  LOCKSTEP_CHECK_KIND(Io, missing.empty(), "no ", missing, " (plain or with .gz) in ", directory,
                      "; give the directory that holds the data set's four IDX files");
  const IdxPart train = load_part(paths[0], paths[1]);
  const IdxPart test = load_part(paths[2], paths[3]);
  const int64_t row_size = train.images.numel() / train.images.size(0);
  LOCKSTEP_CHECK_KIND(BadData, test.images.numel() / test.images.size(0) == row_size,
                      test.image_path, ": images ", test.images.shape(), ", those of ",
                      train.image_path, " are ", train.images.shape(),
                      "; the files do not belong together");
  const int64_t* labels = train.labels.data<int64_t>();
  if (num_classes == 0) num_classes = *std::max_element(labels, labels + train.labels.numel()) + 1;
  check_labels(train, num_classes);
  check_labels(test, num_classes);
  const Scaling scaling = standard_scaling(std::span<const uint8_t>(
      train.images.data<uint8_t>(), static_cast<size_t>(train.images.numel())));
  return {Dataset(train.images, train.labels, num_classes, scaling),
          Dataset(test.images, test.labels, num_classes, scaling)};
}

Split load_fashion_mnist(const std::string& directory) {
  std::error_code ignored;
  LOCKSTEP_CHECK_KIND(Io, std::filesystem::is_directory(directory, ignored), "Fashion-MNIST: no ",
                      "directory ", directory,
                      "; install the package dataset-fashion-mnist, or give the directory of its "
                      "four IDX files");
  return load_idx(directory, 10);
}

Split load_csv(const std::string& path, int64_t num_classes) {
  const std::vector<uint8_t> bytes = io::read_file_or_gzip(path);
  const CsvTable table =
      parse_csv(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path,
                num_classes);
  LOCKSTEP_CHECK_KIND(BadData, table.labels.size() >= 5, path, ": ", table.labels.size(),
                      " samples, expected at least 5, of which every fifth is for testing");
  if (num_classes == 0) {
    num_classes = *std::max_element(table.labels.begin(), table.labels.end()) + 1;
  }
  auto [train, test] = split_rows(table);
  standardise_columns(train.features, test.features, table.num_features);
  return {make_dataset(train, table.num_features, num_classes),
          make_dataset(test, table.num_features, num_classes)};
}

Split load_digits() {
  constexpr int64_t kClasses = 10;
  constexpr double kLargestPixel = 16.0;
  const std::string name = "the embedded digits";
  const std::vector<uint8_t> bytes = io::gunzip(embedded_digits(), name);
  const CsvTable table = parse_csv(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name, kClasses);
  const auto [train, test] = split_rows(table);
  const auto make = [&](const Rows& rows, Scaling scaling) {
    const auto n = static_cast<int64_t>(rows.labels.size());
    Tensor pixels = Tensor::from_values(rows.features, {n, table.num_features});
    return Dataset(pixels.to(DType::UInt8), Tensor::from_values(rows.labels, {n}), kClasses,
                   scaling);
  };
  const std::vector<uint8_t> train_pixels(train.features.begin(), train.features.end());
  const Scaling scaling = standard_scaling(train_pixels, kLargestPixel);
  return {make(train, scaling), make(test, scaling)};
}

}  // namespace lockstep::data
