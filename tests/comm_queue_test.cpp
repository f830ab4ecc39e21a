// Asynchronous collectives: order, overlap, takeover by the waiting caller, and memory.
#include "dist/comm_queue.h"

#include <doctest/doctest.h>

#include <new>

#include "core/base/sanitizer.h"
#include "tests/ranks.h"

namespace {

thread_local bool t_counting = false;
thread_local int t_allocations = 0;

}  // namespace

void* operator new(size_t nbytes) {
  if (t_counting) ++t_allocations;
  void* block = std::malloc(nbytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace lockstep::dist {
namespace {

using test::expect;
using test::run_ranks;

CollectiveCall call_of(int64_t count) {
  CollectiveCall call;
  call.fingerprint.collective = Collective::AllReduce;
  call.count = count;
  return call;
}

constexpr int64_t kLarge = 1'000'000;

TEST_CASE("calls are executed in the order in which they came, whoever executes them") {
  std::vector<int64_t> executed;  // one executor at a time: needs no lock
  CommQueue queue([&](CollectiveCall& call, bool) { executed.push_back(call.count); },
                  /*background=*/true, /*spin=*/false);
  std::vector<int64_t> expected;
  std::vector<std::shared_ptr<Work>> works;
  for (int64_t i = 0; i < 500; ++i) {
    const int64_t count = i % 3 == 0 ? kLarge + i : i;
    expected.push_back(count);
    if (i % 7 == 6) {
      queue.run(call_of(count));
    } else {
      works.push_back(queue.submit(call_of(count)));
    }
    if (i % 11 == 10) works.back()->wait();
  }
  queue.drain();
  for (const auto& work : works) CHECK(work->is_completed());
  CHECK(executed == expected);
}

TEST_CASE("a small call alone is executed by the caller that waits for it") {
  std::thread::id executor;
  bool waiting = false;
  CommQueue queue(
      [&](CollectiveCall&, bool is_waiting) {
        executor = std::this_thread::get_id();
        waiting = is_waiting;
      },
      true, false);
  const auto work = queue.submit(call_of(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(work->is_completed());
  work->wait();
  CHECK(executor == std::this_thread::get_id());
  CHECK(waiting);
}

TEST_CASE("earlier and large calls are executed while the caller computes") {
  std::atomic<bool> background{true};
  CommQueue queue([&](CollectiveCall&, bool waiting) { background = background && !waiting; }, true,
                  false);
  const auto small = queue.submit(call_of(10));
  const auto next = queue.submit(call_of(10));
  while (!small->is_completed()) std::this_thread::yield();  // or the test's own timeout
  CHECK_FALSE(next->is_completed());
  const auto large = queue.submit(call_of(kLarge));
  while (!large->is_completed()) std::this_thread::yield();
  CHECK(next->is_completed());
  CHECK(background);
}

TEST_CASE("a Work keeps the error of its call, and outlives its queue") {
  std::shared_ptr<Work> bad;
  std::shared_ptr<Work> good;
  {
    CommQueue queue(
        [](CollectiveCall& call, bool) { LOCKSTEP_CHECK(call.count != 13, "thirteen"); }, true,
        false);
    bad = queue.submit(call_of(13));
    good = queue.submit(call_of(14));
    CHECK_THROWS_WITH_AS(queue.run(call_of(13)), "thirteen", Error);
  }
  CHECK_THROWS_WITH_AS(bad->wait(), "thirteen", Error);
  CHECK_THROWS_WITH_AS(bad->wait(), "thirteen", Error);
  CHECK_NOTHROW(good->wait());
}

TEST_CASE("asynchronous all_reduces overlap and are exact") {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<Tensor> buckets;
    for (const int64_t n : {10, 200'000, 3, 100'000, 5}) {
      buckets.push_back(group.allocate({n}, DType::Float32));
    }
    for (int step = 1; step <= 30; ++step) {
      std::vector<std::shared_ptr<Work>> works;
      for (Tensor& bucket : buckets) {
        bucket.fill_(step * (group.rank() + 1));
        works.push_back(group.all_reduce_async(bucket, ReduceOp::Sum));
      }
      for (size_t i = works.size(); i-- > 0;) works[i]->wait();
      for (const Tensor& bucket : buckets) {
        const float* data = bucket.data<float>();
        for (int64_t i = 0; i < bucket.numel(); ++i) {
          expect(data[i] == 6.0F * static_cast<float>(step), "element ", i, " of step ", step);
        }
      }
    }
  });
}

TEST_CASE("a dropped Work is executed nevertheless") {
  run_ranks(2, [](ProcessGroup& group) {
    Tensor small = group.allocate({10}, DType::Int64);
    Tensor large = group.allocate({100'000}, DType::Int64);
    small.fill_(1);
    large.fill_(2);
    group.all_reduce_async(small, ReduceOp::Sum);
    group.all_reduce_async(large, ReduceOp::Sum);
    group.barrier();
    expect(small.data<int64_t>()[9] == 2 && large.data<int64_t>()[99'999] == 4, "not executed");
  });
}

TEST_CASE("a steady step allocates nothing") {
  if (kSanitized) {
    MESSAGE("skipped: a sanitizer counts its own allocations");
    return;
  }
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor small = group.allocate({1000}, DType::Float32);
    const Tensor large = group.allocate({100'000}, DType::Float32);
    const auto step = [&] {
      const auto first = group.all_reduce_async(large, ReduceOp::Average);
      const auto last = group.all_reduce_async(small, ReduceOp::Average);
      group.set_phase({"backward", 1, 1});
      first->wait();
      last->wait();
    };
    for (int i = 0; i < 5; ++i) step();
    t_counting = true;
    for (int i = 0; i < 50; ++i) step();
    t_counting = false;
    expect(t_allocations == 0, t_allocations, " allocations");
  });
}

}  // namespace
}  // namespace lockstep::dist
