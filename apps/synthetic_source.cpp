// Random data in the documented script's order of draws: randn, then randint, each micro-batch.
#include "apps/batch_source.h"
#include "core/random.h"

namespace lockstep::apps {
namespace {

class SyntheticSource : public BatchSource {
 public:
  SyntheticSource(int64_t batch_size, int64_t features, int64_t classes, int64_t batches,
                  Device device)
      : batch_size_(batch_size),
        classes_(classes),
        batches_(batches),
        device_(device),
        drawn_(empty({batch_size, features})) {}

  int64_t batches_per_epoch() const override { return batches_; }
  void start_epoch(int64_t) override {}

  const data::Batch& next() override {
    normal_(drawn_);  // what randn does, into memory that is there already
    batch_.data = drawn_.to(device_);
    batch_.target = randint(0, classes_, {batch_size_}).to(device_);
    return batch_;
  }

 private:
  int64_t batch_size_;
  int64_t classes_;
  int64_t batches_;
  Device device_;
  Tensor drawn_;
  data::Batch batch_;
};

}  // namespace

std::unique_ptr<BatchSource> make_synthetic_source(int64_t batch_size, int64_t features,
                                                   int64_t classes, int64_t batches,
                                                   Device device) {
  return std::make_unique<SyntheticSource>(batch_size, features, classes, batches, device);
}

}  // namespace lockstep::apps
