// Batches of a data set, in a sampler's order: torch.utils.data.DataLoader without workers, because
// gathering a batch from memory costs microseconds.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/tensor.h"

namespace lockstep::data {

/// The loader overwrites the tensors with the next batch: clone() what must last longer.
struct Batch {
  Tensor data;    ///< [N, num_features] Float32
  Tensor target;  ///< [N] Int64
};

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;                   ///< RandomSampler; not together with a sampler
  bool drop_last = false;                 ///< leave out a last batch that is smaller
  std::shared_ptr<Sampler> sampler = {};  ///< default: in order
  Generator* generator = nullptr;         ///< null: default_generator()
};

/// for (const auto& [data, target] : loader) { ... } is one epoch.
class DataLoader {
 public:
  /// The data set must outlive the loader.
  DataLoader(const Dataset& dataset, DataLoaderOptions options);

  /// Batches an epoch: len(loader).
  int64_t size() const;

  /// iter(loader). Draws 64 bits from the generator, which PyTorch would seed its workers with,
  /// so that what follows sees the same stream.
  void start_epoch();
  /// The next batch of the epoch, or null at its end. Asks the sampler on the first call.
  const Batch* next();

  /// An input iterator over one epoch; begin() starts it.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;

    explicit Iterator(DataLoader* loader) : loader_(loader), batch_(loader->next()) {}
    reference operator*() const { return *batch_; }
    pointer operator->() const { return batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

   private:
    DataLoader* loader_;
    const Batch* batch_;
  };
  Iterator begin() {
    start_epoch();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  const Dataset& dataset_;
  DataLoaderOptions options_;
  std::vector<int64_t> indices_;
  bool sampled_ = false;  ///< indices_ are this epoch's
  int64_t position_ = 0;  ///< next index
  Batch full_;            ///< the memory of a batch
  Batch last_;            ///< its first rows, for a smaller last batch
};

}  // namespace lockstep::data
