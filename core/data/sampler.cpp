// Samplers. The number of random words that each draws is part of PyTorch's stream, and so of ours.
#include "core/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace lockstep::data {
namespace {

void append(std::vector<int64_t>& indices, const Tensor& more, int64_t count) {
  const int64_t* first = more.data<int64_t>();
  indices.insert(indices.end(), first, first + count);
}

/// PyTorch draws with replacement in chunks of this size.
constexpr int64_t kReplacementChunk = 32;

}  // namespace

std::pair<int64_t, int64_t> shard(int64_t n, int rank, int world_size) {
  LOCKSTEP_CHECK(rank >= 0 && rank < world_size, "shard: rank ", rank, " of ", world_size,
                 ", expected 0 <= rank < world_size");
  // n * rank could overflow: whole parts first, then one of the rest for the first ranks.
  const int64_t part = n / world_size;
  const int64_t rest = n % world_size;
  const int64_t begin = part * rank + std::min<int64_t>(rank, rest);
  return {begin, begin + part + (rank < rest ? 1 : 0)};
}

SequentialSampler::SequentialSampler(int64_t begin, int64_t end) : begin_(begin), end_(end) {
  LOCKSTEP_CHECK(0 <= begin && begin <= end, "SequentialSampler: [", begin, ", ", end,
                 "), expected 0 <= begin <= end");
}

std::vector<int64_t> SequentialSampler::next_epoch() {
  std::vector<int64_t> indices(static_cast<size_t>(size()));
  std::iota(indices.begin(), indices.end(), begin_);
  return indices;
}

RandomSampler::RandomSampler(int64_t n, RandomSamplerOptions options) : n_(n), options_(options) {
  LOCKSTEP_CHECK_KIND(BadData, n > 0, "RandomSampler: there are ", n,
                      " samples, expected at least 1");
  LOCKSTEP_CHECK(options.num_samples >= 0, "RandomSampler: num_samples is ", options.num_samples,
                 ", expected at least 0");
  if (options_.num_samples == 0) options_.num_samples = n;
}

std::vector<int64_t> RandomSampler::next_epoch() {
  Generator own;
  Generator* generator = options_.generator;
  if (generator == nullptr) {
    own.manual_seed(static_cast<uint64_t>(random_int64(default_generator())));
    generator = &own;
  }
  const int64_t wanted = options_.num_samples;
  const int64_t chunk = options_.replacement ? kReplacementChunk : n_;
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(wanted));
  const auto draw = [&](int64_t count) {
    const Tensor drawn =
        options_.replacement ? randint(0, n_, {count}, generator) : randperm(n_, generator);
    append(indices, drawn, count);
  };
  for (int64_t i = 0; i < wanted / chunk; ++i) draw(chunk);
  draw(wanted % chunk);  // a whole permutation is drawn even for none of it
  return indices;
}

DistributedSampler::DistributedSampler(int64_t n, DistributedSamplerOptions options)
    : n_(n), options_(options) {
  const auto [rank, world_size, shuffle, seed, drop_last] = options;
  LOCKSTEP_CHECK(rank >= 0 && rank < world_size, "DistributedSampler: rank ", rank, " of ",
                 world_size, ", expected 0 <= rank < world_size");
  LOCKSTEP_CHECK_KIND(BadData, n > 0, "DistributedSampler: there are ", n,
                      " samples, expected at least 1");
  size_ = drop_last ? n / world_size : (n + world_size - 1) / world_size;
}

std::vector<int64_t> DistributedSampler::next_epoch() {
  std::vector<int64_t> order;
  if (options_.shuffle) {
    Generator generator(options_.seed + static_cast<uint64_t>(epoch_));
    append(order, randperm(n_, &generator), n_);
  } else {
    order.resize(static_cast<size_t>(n_));
    std::iota(order.begin(), order.end(), int64_t{0});
  }
  ++epoch_;
  std::vector<int64_t> indices(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) {
    // Past the end the order begins again: the padding.
    const int64_t place = (i * options_.world_size + options_.rank) % n_;
    indices[static_cast<size_t>(i)] = order[static_cast<size_t>(place)];
  }
  return indices;
}

int64_t DistributedSampler::num_unpadded() const {
  const int64_t first = options_.rank;
  if (first >= n_) return 0;
  return std::min(size_, (n_ - first + options_.world_size - 1) / options_.world_size);
}

}  // namespace lockstep::data
