// Batches against orders recorded from PyTorch's DataLoader, with the random numbers it consumes.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/data/data_loader.h"

namespace lockstep::test {
namespace {

using data::DataLoader;
using data::Dataset;
using Batches = std::vector<std::vector<int64_t>>;

/// n samples whose only feature and label are their index.
Dataset numbered(int64_t n) {
  std::vector<float> features;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    features.push_back(static_cast<float>(i));
    labels.push_back(i);
  }
  return {Tensor::from_values(features, {n, 1}), Tensor::from_values(labels, {n}), n};
}

/// One epoch; checks that data and labels belong together.
Batches epoch(DataLoader& loader) {
  Batches batches;
  for (const auto& [data, target] : loader) {
    batches.push_back(target.to_vector<int64_t>());
    CHECK(data.shape() == Shape({target.size(0), 1}));
    CHECK(data.to(DType::Int64).to_vector<int64_t>() == batches.back());
  }
  CHECK(static_cast<int64_t>(batches.size()) == loader.size());
  return batches;
}

}  // namespace

TEST_CASE("shuffled epochs") {
  const Dataset dataset = numbered(10);
  manual_seed(0);
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true});
  CHECK(epoch(loader) == Batches{{6, 7, 1, 4}, {2, 0, 9, 8}, {3, 5}});
  CHECK(epoch(loader) == Batches{{2, 4, 7, 0}, {8, 9, 5, 3}, {6, 1}});
  CHECK(rand({1}).item() == 0.455627977848053);
}

TEST_CASE("in order, an epoch still consumes 64 bits") {
  const Dataset dataset = numbered(10);
  manual_seed(0);
  DataLoader loader(dataset, {.batch_size = 4});
  CHECK(epoch(loader) == Batches{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  CHECK(rand({1}).item() == 0.08847743272781372);
}

TEST_CASE("the last batch may be dropped, be whole, or be the only one") {
  const Dataset dataset = numbered(6);
  DataLoader dropping(dataset, {.batch_size = 4, .drop_last = true});
  CHECK(epoch(dropping) == Batches{{0, 1, 2, 3}});
  DataLoader whole(dataset, {.batch_size = 3});
  CHECK(epoch(whole) == Batches{{0, 1, 2}, {3, 4, 5}});
  DataLoader only(dataset, {.batch_size = 100});
  CHECK(epoch(only) == Batches{{0, 1, 2, 3, 4, 5}});
  DataLoader nothing(dataset, {.batch_size = 100, .drop_last = true});
  CHECK(epoch(nothing).empty());
}

TEST_CASE("a distributed sampler moves on by itself") {
  const Dataset dataset = numbered(10);
  const auto sampler = std::make_shared<data::DistributedSampler>(
      10, data::DistributedSamplerOptions{.rank = 1, .world_size = 3});
  DataLoader loader(dataset, {.batch_size = 3, .sampler = sampler});
  CHECK(epoch(loader) == Batches{{1, 3, 8}, {4}});
  CHECK(epoch(loader) == Batches{{6, 0, 3}, {5}});
}

TEST_CASE("an abandoned epoch does not leak into the next") {
  const Dataset dataset = numbered(5);
  DataLoader loader(dataset, {.batch_size = 2});
  loader.start_epoch();
  CHECK(loader.next()->target.to_vector<int64_t>() == std::vector<int64_t>{0, 1});
  CHECK(epoch(loader) == Batches{{0, 1}, {2, 3}, {4}});
  CHECK(loader.next() == nullptr);
}

TEST_CASE("a part of the data set, as evaluation takes it") {
  const Dataset dataset = numbered(7);
  Batches all;
  for (int rank = 0; rank < 3; ++rank) {
    const auto [begin, end] = data::shard(7, rank, 3);
    DataLoader loader(dataset, {.batch_size = 2,
                                .sampler = std::make_shared<data::SequentialSampler>(begin, end)});
    for (auto& batch : epoch(loader)) all.push_back(std::move(batch));
  }
  CHECK(all == Batches{{0, 1}, {2}, {3, 4}, {5, 6}});
}

TEST_CASE("the batches of an epoch reuse their memory") {
  const Dataset dataset = numbered(8);
  DataLoader loader(dataset, {.batch_size = 2});
  loader.start_epoch();
  const void* first = loader.next()->data.raw_data();
  for (int i = 0; i < 3; ++i) CHECK(loader.next()->data.raw_data() == first);
}

TEST_CASE("bad options are refused") {
  const Dataset dataset = numbered(8);
  CHECK_THROWS_AS(DataLoader(dataset, {.batch_size = 0}), Error);
  CHECK_THROWS_AS(DataLoader(dataset, {.shuffle = true,
                                       .sampler = std::make_shared<data::SequentialSampler>(8)}),
                  Error);
}

}  // namespace lockstep::test
