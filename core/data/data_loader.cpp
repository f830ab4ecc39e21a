// The loader keeps the memory of one batch and fills it again and again.
#include "core/data/data_loader.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep::data {

DataLoader::DataLoader(const Dataset& dataset, DataLoaderOptions options)
    : dataset_(dataset), options_(std::move(options)) {
  LOCKSTEP_CHECK_KIND(Usage, options_.batch_size > 0, "DataLoader: batch_size is ",
                      options_.batch_size, ", expected at least 1");
  LOCKSTEP_CHECK_KIND(Usage, !options_.shuffle || options_.sampler == nullptr,
                      "DataLoader: both a sampler and shuffle are given; the sampler decides the "
                      "order, so leave shuffle out");
  if (options_.shuffle) {
    options_.sampler = std::make_shared<RandomSampler>(
        dataset.size(), RandomSamplerOptions{.generator = options_.generator});
  } else if (options_.sampler == nullptr) {
    options_.sampler = std::make_shared<SequentialSampler>(dataset.size());
  }
  // Never more than an epoch: a batch size beyond the data set must not cost its memory.
  const int64_t rows = std::min(options_.batch_size, options_.sampler->size());
  full_ = {empty({rows, dataset.num_features()}), empty({rows}, DType::Int64)};
}

int64_t DataLoader::size() const {
  const int64_t samples = options_.sampler->size();
  const int64_t whole = samples / options_.batch_size;
  return whole + (!options_.drop_last && samples % options_.batch_size != 0 ? 1 : 0);
}

void DataLoader::start_epoch() {
  random_int64(options_.generator != nullptr ? *options_.generator : default_generator());
  sampled_ = false;
}

const Batch* DataLoader::next() {
  if (!sampled_) {
    indices_ = options_.sampler->next_epoch();
    position_ = 0;
    sampled_ = true;
  }
  const int64_t left = static_cast<int64_t>(indices_.size()) - position_;
  const int64_t count = std::min(left, options_.batch_size);
  if (count == 0 || (options_.drop_last && count < options_.batch_size)) return nullptr;
  const auto indices =
      std::span(indices_).subspan(static_cast<size_t>(position_), static_cast<size_t>(count));
  position_ += count;
  Batch* batch = &full_;
  if (count < full_.target.size(0)) {
    last_ = {full_.data.slice(0, count), full_.target.slice(0, count)};
    batch = &last_;
  }
  dataset_.gather(indices, batch->data, batch->target);
  return batch;
}

}  // namespace lockstep::data
