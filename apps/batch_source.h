// Where a rank's micro-batches come from: fresh random numbers, or its share of a data set.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/data_loader.h"

namespace lockstep::apps {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Micro-batches an epoch; the same number on every rank.
  virtual int64_t batches_per_epoch() const = 0;
  virtual void start_epoch(int64_t epoch) = 0;
  /// The batch is overwritten by the next call.
  virtual const data::Batch& next() = 0;
};

/// data ~ N(0, 1), then target uniform in [0, classes), both from the default generator, in the
/// order of the documented script. An epoch is `batches` micro-batches, one step.
std::unique_ptr<BatchSource> make_synthetic_source(int64_t batch_size, int64_t features,
                                                   int64_t classes, int64_t batches, Device device);

/// This rank's shuffled share of the data set (DistributedSampler with this seed); the last
/// micro-batch may be smaller.
std::unique_ptr<BatchSource> make_dataset_source(const data::Dataset& dataset, int64_t batch_size,
                                                 int rank, int world_size, int64_t seed,
                                                 Device device);

}  // namespace lockstep::apps
