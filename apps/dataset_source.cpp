// A rank's shuffled share of a data set, batch by batch.
#include "apps/batch_source.h"
#include "core/base/error.h"

namespace lockstep::apps {
namespace {

class DatasetSource : public BatchSource {
 public:
  DatasetSource(const data::Dataset& dataset, int64_t batch_size, int rank, int world_size,
                int64_t seed, Device device)
      : sampler_(std::make_shared<data::DistributedSampler>(
            dataset.size(),
            data::DistributedSamplerOptions{
                .rank = rank, .world_size = world_size, .seed = static_cast<uint64_t>(seed)})),
        loader_(dataset, {.batch_size = batch_size, .sampler = sampler_}),
        device_(device) {}

  int64_t batches_per_epoch() const override { return loader_.size(); }

  void start_epoch(int64_t epoch) override {
    sampler_->set_epoch(epoch);
    loader_.start_epoch();
  }

  const data::Batch& next() override {
    const data::Batch* batch = loader_.next();
    LOCKSTEP_ASSERT(batch != nullptr, "more batches were asked for than the epoch has");
    if (device_.is_cpu()) return *batch;
    moved_ = {batch->data.to(device_), batch->target.to(device_)};
    return moved_;
  }

 private:
  std::shared_ptr<data::DistributedSampler> sampler_;
  data::DataLoader loader_;
  Device device_;
  data::Batch moved_;
};

}  // namespace

std::unique_ptr<BatchSource> make_dataset_source(const data::Dataset& dataset, int64_t batch_size,
                                                 int rank, int world_size, int64_t seed,
                                                 Device device) {
  return std::make_unique<DatasetSource>(dataset, batch_size, rank, world_size, seed, device);
}

}  // namespace lockstep::apps
