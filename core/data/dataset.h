// A labelled data set that fits in memory: torch.utils.data.TensorDataset with its normalisation.
// Images stay one byte a pixel and become floats when a batch is gathered.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace lockstep::data {

/// How a stored byte becomes a network's input: float(byte) * scale + shift, in Float32.
struct Scaling {
  float scale = 1.0f;
  float shift = 0.0f;
};

/// ToTensor and Normalize in one: (byte / largest - mean) / std, with mean and (biased) standard
/// deviation of byte / largest over all the bytes; std 1 when they are all equal.
Scaling standard_scaling(std::span<const uint8_t> bytes, double largest = 255.0);

class Dataset {
 public:
  /// features [N, ...] UInt8 (scaled as given when gathered) or Float32 (taken as they are, the
  /// scaling is not used); labels [N] Int64 in [0, num_classes). Shares the tensors' memory.
  /// throws Error on shapes and dtypes, Error(BadData) naming the first label out of range
  Dataset(Tensor features, Tensor labels, int64_t num_classes, Scaling scaling = {});

  int64_t size() const { return labels_.numel(); }
  /// Elements of one sample.
  int64_t num_features() const { return num_features_; }
  int64_t num_classes() const { return num_classes_; }
  const Tensor& features() const { return features_; }
  const Tensor& labels() const { return labels_; }
  const Scaling& scaling() const { return scaling_; }

  /// data[i] = scaled features of sample indices[i], target[i] = its label.
  /// data [n, num_features] Float32, target [n] Int64, both on the CPU, n = indices.size()
  /// throws Error on shape or dtype, and on an index outside [0, N)
  void gather(std::span<const int64_t> indices, Tensor& data, Tensor& target) const;

 private:
  Tensor features_;
  Tensor labels_;
  int64_t num_classes_;
  int64_t num_features_;
  Scaling scaling_;
};

}  // namespace lockstep::data
