// Which samples, in which order: PyTorch's samplers with PyTorch's draws. A distributed sampler
// counts its epochs itself, so a forgotten set_epoch() does not repeat one order for ever.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/random.h"

namespace lockstep::data {

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Indices an epoch.
  virtual int64_t size() const = 0;
  /// The indices of the next epoch: list(iter(sampler)).
  virtual std::vector<int64_t> next_epoch() = 0;
};

/// [begin, end) of rank's part of n samples: the parts of all ranks cover every sample once and
/// differ by one in size. This is how evaluation counts each sample once.
/// throws Error unless 0 <= rank < world_size
std::pair<int64_t, int64_t> shard(int64_t n, int rank, int world_size);

/// begin, begin + 1, ..., end - 1.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t n) : SequentialSampler(0, n) {}
  SequentialSampler(int64_t begin, int64_t end);
  int64_t size() const override { return end_ - begin_; }
  std::vector<int64_t> next_epoch() override;

 private:
  int64_t begin_;
  int64_t end_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  int64_t num_samples = 0;         ///< 0: as many as there are
  Generator* generator = nullptr;  ///< null: an own one, seeded each epoch from the default one
};

/// source: torch.utils.data.RandomSampler
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t n, RandomSamplerOptions options = {});
  int64_t size() const override { return options_.num_samples; }
  std::vector<int64_t> next_epoch() override;

 private:
  int64_t n_;
  RandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 0;       ///< the same on every rank
  bool drop_last = false;  ///< false: the first samples are used twice to make the parts equal
};

/// Every world_size-th sample of an order that all ranks share.
/// source: torch.utils.data.distributed.DistributedSampler
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(int64_t n, DistributedSamplerOptions options);

  int64_t size() const override { return size_; }
  /// The order of epoch epoch(), then goes on to the next epoch.
  std::vector<int64_t> next_epoch() override;

  /// The epoch that the next call of next_epoch() is for; set_epoch resumes a run.
  int64_t epoch() const { return epoch_; }
  void set_epoch(int64_t epoch) { epoch_ = epoch; }

  /// Of size(), the leading ones that are no padding: over all ranks they count every sample once
  /// (without drop_last).
  int64_t num_unpadded() const;

 private:
  int64_t n_;
  DistributedSamplerOptions options_;
  int64_t size_;
  int64_t epoch_ = 0;
};

}  // namespace lockstep::data
