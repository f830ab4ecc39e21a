// Whole training steps over two ranks, from the batch to the optimizer, allocate nothing once they
// have run a few times: every allocation of every thread is counted, those of the communication
// threads too.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "core/base/sanitizer.h"
#include "core/nn/layers.h"
#include "core/optim/optimizer.h"
#include "core/random.h"
#include "dist/distributed_data_parallel.h"
#include "dist/reducer.h"
#include "kernels/allocator.h"
#include "tests/ddp_models.h"
#include "tests/ranks.h"

namespace {

std::atomic<int64_t> g_allocations{0};

}  // namespace

// Out of line, where g++ does not pair this new with another delete.
[[gnu::noinline]] void* operator new(size_t nbytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* block = std::malloc(nbytes == 0 ? 1 : nbytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace lockstep {
namespace {

using test::borrow;
using test::expect;
using test::run_ranks;

struct Counts {
  int64_t allocations;  ///< of the whole process
  int64_t misses;       ///< of this thread's cache of tensor memory
};

/// Between two barriers nothing runs, so all ranks read the same number of allocations.
Counts counts(dist::ProcessGroup& group) {
  group.barrier();
  const Counts now{g_allocations.load(), kernels::cpu_allocator_stats().misses};
  group.barrier();
  return now;
}

/// Throws when a step allocates after `warm_up` of them.
void expect_no_allocation(dist::ProcessGroup& group, int warm_up,
                          const std::function<void()>& step) {
  for (int i = 0; i < warm_up; ++i) step();
  const Counts before = counts(group);
  for (int i = 0; i < 20; ++i) step();
  const Counts after = counts(group);
  expect(after.allocations == before.allocations, after.allocations - before.allocations,
         " allocations in 20 steps");
  expect(after.misses == before.misses, after.misses - before.misses,
         " tensors with new memory in 20 steps");
}

bool is_skipped() {
  if (kSanitized) MESSAGE("skipped: under a sanitizer every small object is allocated");
  return kSanitized;
}

nn::Sequential mlp() {
  return nn::Sequential{nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 128), nn::ReLU(),
                        nn::Linear(128, 10)};
}

TEST_CASE("the counter sees an allocation") {
  const int64_t before = g_allocations;
  ::operator delete(::operator new(8));
  CHECK(g_allocations - before == 1);
}

TEST_CASE("the documented step allocates nothing, random data included") {
  if (is_skipped()) return;
  run_ranks(2, [](dist::ProcessGroup& group) {
    manual_seed(static_cast<uint64_t>(group.rank()));
    nn::Linear model(1000, 10);
    dist::DistributedDataParallel ddp(model, borrow(group));
    optim::SGD optimizer(ddp.parameters(), {.lr = 0.01});
    nn::CrossEntropyLoss criterion;
    double last = 0;
    expect_no_allocation(group, 5, [&] {
      const Tensor data = randn({32, 1000});
      const Tensor target = randint(0, 10, {32});
      optimizer.zero_grad();
      Tensor loss = criterion(ddp(data), target);
      loss.backward();
      optimizer.step();
      last = loss.item();
    });
    expect(last > 0, "the last loss is ", last);
  });
}

TEST_CASE("an MLP's step in many buckets allocates nothing, with momentum and no_sync") {
  if (is_skipped()) return;
  for (const double bucket_cap_mb : {25.0, test::kOneParameterBuckets}) {
    CAPTURE(bucket_cap_mb);
    run_ranks(2, [bucket_cap_mb](dist::ProcessGroup& group) {
      manual_seed(0);
      nn::Sequential model = mlp();
      dist::DistributedDataParallel ddp(model, borrow(group), {.bucket_cap_mb = bucket_cap_mb});
      optim::SGD optimizer(ddp.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
      nn::CrossEntropyLoss criterion;
      const Tensor data = randn({64, 784});
      const Tensor target = randint(0, 10, {64});
      expect_no_allocation(group, 5, [&] {
        optimizer.zero_grad();
        {
          const auto guard = ddp.no_sync();
          criterion(ddp(data), target).backward();
        }
        criterion(ddp(data), target).backward();
        optimizer.step();
      });
      const size_t buckets = ddp.reducer().plan().size();
      expect(bucket_cap_mb > 1 ? buckets == 1 : buckets == 6, buckets, " buckets");
    });
  }
}

TEST_CASE("AdamW's step allocates nothing") {
  if (is_skipped()) return;
  run_ranks(2, [](dist::ProcessGroup& group) {
    manual_seed(0);
    nn::Sequential model = mlp();
    dist::DistributedDataParallel ddp(model, borrow(group));
    optim::AdamW optimizer(ddp.parameters(), {.lr = 0.001});
    nn::CrossEntropyLoss criterion;
    const Tensor data = randn({64, 784});
    const Tensor target = randint(0, 10, {64});
    expect_no_allocation(group, 5, [&] {
      optimizer.zero_grad();
      criterion(ddp(data), target).backward();
      optimizer.step();
    });
  });
}

}  // namespace
}  // namespace lockstep
