// Orders of samples against those recorded from PyTorch, and what evaluation and padding promise.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/base/error.h"
#include "core/data/sampler.h"

namespace lockstep::test {
namespace {

using data::DistributedSampler;
using data::DistributedSamplerOptions;
using data::RandomSampler;
using Indices = std::vector<int64_t>;
using Orders = std::vector<Indices>;

/// The next epoch of every rank.
Orders orders(std::vector<DistributedSampler>& samplers) {
  Orders result;
  for (DistributedSampler& sampler : samplers) result.push_back(sampler.next_epoch());
  return result;
}

std::vector<DistributedSampler> make(int64_t n, int world_size, DistributedSamplerOptions options) {
  std::vector<DistributedSampler> samplers;
  options.world_size = world_size;
  for (options.rank = 0; options.rank < world_size; ++options.rank) {
    samplers.emplace_back(n, options);
  }
  return samplers;
}

}  // namespace

TEST_CASE("distributed: shuffled orders of two epochs") {
  auto samplers = make(10, 3, {});
  const Orders first = {{4, 5, 0, 2}, {1, 3, 8, 4}, {7, 9, 6, 1}};
  const Orders second = {{5, 2, 9, 4}, {6, 0, 3, 5}, {1, 8, 7, 6}};
  CHECK(orders(samplers) == first);
  CHECK(samplers[0].epoch() == 1);
  CHECK(orders(samplers) == second);
  for (auto& sampler : samplers) sampler.set_epoch(0);
  CHECK(orders(samplers) == first);
}

TEST_CASE("distributed: in order, dropping or repeating") {
  auto dropping = make(10, 3, {.shuffle = false, .drop_last = true});
  CHECK(orders(dropping) == Orders{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}});
  auto repeating = make(2, 5, {.shuffle = false});
  CHECK(orders(repeating) == Orders{{0}, {1}, {0}, {1}, {0}});
}

TEST_CASE("distributed: parts are equal, unpadded parts cover every sample once") {
  for (const int64_t n : {1, 2, 7, 10, 84, 101}) {
    for (const int world_size : {1, 2, 3, 4, 7, 13}) {
      CAPTURE(n);
      CAPTURE(world_size);
      for (const bool shuffle : {false, true}) {
        auto samplers = make(n, world_size, {.shuffle = shuffle, .seed = 5});
        std::map<int64_t, int> seen;
        for (DistributedSampler& sampler : samplers) {
          const Indices indices = sampler.next_epoch();
          CHECK(static_cast<int64_t>(indices.size()) == sampler.size());
          CHECK(sampler.size() == samplers[0].size());
          for (int64_t i = 0; i < sampler.num_unpadded(); ++i) {
            ++seen[indices[static_cast<size_t>(i)]];
          }
        }
        CHECK(static_cast<int64_t>(seen.size()) == n);
        for (const auto& [index, count] : seen) CHECK((index >= 0 && index < n && count == 1));
      }
    }
  }
}

TEST_CASE("distributed: seed and epoch add up") {
  DistributedSampler a(50, {.seed = 3});
  DistributedSampler b(50, {.seed = 1});
  a.set_epoch(4);
  b.set_epoch(6);
  CHECK(a.next_epoch() == b.next_epoch());
}

TEST_CASE("random: a permutation seeded from the default generator") {
  manual_seed(0);
  CHECK(RandomSampler(10).next_epoch() == Indices{6, 9, 0, 7, 3, 5, 4, 2, 1, 8});
  manual_seed(0);
  RandomSampler replacing(10, {.replacement = true, .num_samples = 8});
  CHECK(replacing.next_epoch() == Indices{6, 0, 4, 3, 9, 5, 7, 8});
}

TEST_CASE("random: a given generator is used directly, a whole permutation at a time") {
  Generator generator(0);
  RandomSampler sampler(10, {.num_samples = 25, .generator = &generator});
  const Indices indices = sampler.next_epoch();
  REQUIRE(indices.size() == 25);
  CHECK(Indices(indices.begin(), indices.begin() + 10) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  for (const auto begin : {indices.begin(), indices.begin() + 10}) {
    CHECK(std::set<int64_t>(begin, begin + 10).size() == 10);
  }
  Generator expected(0);
  for (int i = 0; i < 3; ++i) (void)randperm(10, &expected);
  CHECK(generator.random() == expected.random());
}

TEST_CASE("sequential, and shards for evaluation") {
  CHECK(data::SequentialSampler(3).next_epoch() == Indices{0, 1, 2});
  CHECK(data::SequentialSampler(5, 7).next_epoch() == Indices{5, 6});
  for (const int64_t n : {0, 1, 5, 10'000}) {
    for (const int world_size : {1, 2, 3, 7}) {
      int64_t end = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const auto [first, last] = data::shard(n, rank, world_size);
        CHECK(first == end);
        CHECK((last - first == n / world_size || last - first == n / world_size + 1));
        end = last;
      }
      CHECK(end == n);
    }
  }
}

TEST_CASE("bad arguments are refused") {
  CHECK_THROWS_AS(DistributedSampler(10, {.rank = 2, .world_size = 2}), Error);
  CHECK_THROWS_AS(DistributedSampler(0, {}), Error);
  CHECK_THROWS_AS(RandomSampler(0), Error);
  CHECK_THROWS_AS(data::SequentialSampler(3, 2), Error);
  CHECK_THROWS_AS(data::shard(10, 3, 3), Error);
}

}  // namespace lockstep::test
