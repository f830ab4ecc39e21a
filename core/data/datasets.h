// The data sets that a training run can name: read, checked, split into training and test part, and
// normalised by the training part. docs/data.md describes the formats.
#pragma once

#include <cstdint>
#include <string>

#include "core/data/dataset.h"

namespace lockstep::data {

struct Split {
  Dataset train;
  Dataset test;
};

inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

/// MNIST's four files in a directory, each plain or with .gz: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte. Pixels are divided by
/// 255, then standardised. num_classes 0: the largest training label + 1.
/// throws Error(Io) naming every missing file, Error(BadData) naming file and place
Split load_idx(const std::string& directory, int64_t num_classes = 0);

/// load_idx with 10 classes; a missing directory says how to install the data set.
Split load_fashion_mnist(const std::string& directory = kFashionMnistDirectory);

/// A CSV file, plain or gzipped: numeric features, last the label. Every fifth row (row % 5 == 4)
/// is in the test part; each column is standardised. num_classes 0: the largest label + 1.
/// throws Error(Io), or Error(BadData) naming file, line and column
Split load_csv(const std::string& path, int64_t num_classes = 0);

/// The 1797 handwritten digits of 8x8 pixels that are embedded in the library: 10 classes, every
/// fifth sample in the test part. Pixels are divided by 16, then standardised.
Split load_digits();

}  // namespace lockstep::data
