// Data sets in memory: checks at construction, then gathering without allocation.
#include "core/data/dataset.h"

#include <array>
#include <cmath>

#include "core/base/error.h"
#include "kernels/gather_rows.h"

namespace lockstep::data {
namespace {

void check_labels(const Tensor& labels, int64_t num_classes) {
  const int64_t* values = labels.data<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    LOCKSTEP_CHECK_KIND(BadData, values[i] >= 0 && values[i] < num_classes, "dataset: sample ", i,
                        " has the label ", values[i], ", expected 0 to ", num_classes - 1,
                        "; correct the labels or the number of classes");
  }
}

}  // namespace

Scaling standard_scaling(std::span<const uint8_t> bytes, double largest) {
  // Four tables in turn: equal bytes in a row, such as background, would wait for one another.
  constexpr size_t kTables = 4;
  std::array<std::array<uint64_t, 256>, kTables> counts{};
  for (size_t i = 0; i < bytes.size(); ++i) ++counts[i % kTables][bytes[i]];
  // Exact in integers: at most 2^40 bytes, so that the squares stay below 2^56.
  uint64_t sum = 0;
  uint64_t sum_of_squares = 0;
  for (const auto& table : counts) {
    for (uint64_t value = 0; value < table.size(); ++value) {
      sum += table[value] * value;
      sum_of_squares += table[value] * value * value;
    }
  }
  const double n = bytes.empty() ? 1.0 : static_cast<double>(bytes.size());
  const double mean = static_cast<double>(sum) / n;
  const double variance = static_cast<double>(sum_of_squares) / n - mean * mean;
  const double std = variance > 0.0 ? std::sqrt(variance) : largest;
  return {static_cast<float>(1.0 / std), static_cast<float>(-mean / std)};
}

Dataset::Dataset(Tensor features, Tensor labels, int64_t num_classes, Scaling scaling)
    : features_(std::move(features)),
      labels_(std::move(labels)),
      num_classes_(num_classes),
      num_features_(0),
      scaling_(scaling) {
  LOCKSTEP_CHECK(features_.defined() && labels_.defined(),
                 "dataset: features or labels are undefined; give them values first");
  LOCKSTEP_CHECK(features_.device().is_cpu() && labels_.device().is_cpu(), "dataset: features on ",
                 features_.device(), ", labels on ", labels_.device(),
                 ", expected both on the CPU; batches are moved to the device");
  LOCKSTEP_CHECK(features_.dtype() == DType::UInt8 || features_.dtype() == DType::Float32,
                 "dataset: features are ", features_.dtype(), ", expected UInt8 or Float32");
  LOCKSTEP_CHECK(labels_.dtype() == DType::Int64, "dataset: labels are ", labels_.dtype(),
                 ", expected Int64");
  LOCKSTEP_CHECK(features_.dim() >= 2 && labels_.dim() == 1 && features_.size(0) == labels_.size(0),
                 "dataset: features of shape ", features_.shape(), " with labels of shape ",
                 labels_.shape(), ", expected [N, ...] with [N]");
  num_features_ = 1;
  for (int i = 1; i < features_.dim(); ++i) num_features_ *= features_.size(i);
  check_labels(labels_, num_classes_);
}

void Dataset::gather(std::span<const int64_t> indices, Tensor& data, Tensor& target) const {
  const auto n = static_cast<int64_t>(indices.size());
  LOCKSTEP_CHECK(data.shape() == Shape({n, num_features_}) && target.shape() == Shape({n}),
                 "gather: data of shape ", data.shape(), " and target of shape ", target.shape(),
                 " for ", n, " samples, expected ", Shape({n, num_features_}), " and ", Shape({n}));
  float* output = data.data<float>();
  int64_t* classes = target.data<int64_t>();
  const int64_t* all_classes = labels_.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    LOCKSTEP_CHECK(index >= 0 && index < size(), "gather: sample ", index,
                   " asked of a data set of ", size());
    classes[i] = all_classes[index];
  }
  if (features_.dtype() == DType::UInt8) {
    kernels::cpu::gather_rows(output, features_.data<uint8_t>(), indices.data(), n, num_features_,
                              scaling_.scale, scaling_.shift);
  } else {
    kernels::cpu::gather_rows(output, features_.data<float>(), indices.data(), n, num_features_);
  }
  data.bump_version();
  target.bump_version();
}

}  // namespace lockstep::data
