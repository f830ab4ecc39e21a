// A process group without other ranks: collectives are recorded and end when the test says so, so
// that the order of things in the reducer can be tested exactly.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "dist/process_group.h"

namespace lockstep::test {

/// Rank 0 of `world_size` ranks that all do what rank 0 does: averages change nothing.
class FakeProcessGroup final : public dist::ProcessGroup {
 public:
  explicit FakeProcessGroup(int world_size) : ProcessGroup(0, world_size, kCPU) {}

  /// False: an all-reduce is over only once it is waited for.
  bool complete_at_once = true;
  /// Applied to what is reduced: the other ranks' contribution.
  std::function<void(const Tensor&)> reduction;
  /// Thrown by waits when not empty.
  std::string failure;

  std::vector<int64_t> reduced_numels;
  int64_t num_broadcasts = 0;
  int64_t num_allocations = 0;
  int64_t num_open = 0;
  std::vector<std::string> aborts;

  const char* backend() const override { return "fake"; }

  std::shared_ptr<dist::Work> all_reduce_async(const Tensor& tensor, dist::ReduceOp op) override {
    LOCKSTEP_CHECK(op == dist::ReduceOp::Average, "expected an average");
    if (reduced_numels.size() < reduced_numels.capacity()) reduced_numels.push_back(tensor.numel());
    if (reduction) reduction(tensor);
    std::shared_ptr<FakeWork> work = next_work();
    work->done = complete_at_once;
    ++num_open;
    return work;
  }
  void broadcast(const Tensor& tensor, int root) override {
    ++num_broadcasts;
    if (adopt_order != nullptr && root == 0 && tensor.dtype() == DType::Int64) adopt_order(tensor);
  }
  /// Overwrites what rank 0 broadcasts, as if this were another rank.
  std::function<void(const Tensor&)> adopt_order;

  void all_gather(const Tensor& output, const Tensor& input) override {
    const int64_t rows = input.size(0);
    for (int r = 0; r < world_size(); ++r) output.slice(r * rows, (r + 1) * rows).copy_(input);
  }
  void reduce_scatter(const Tensor&, const Tensor&, dist::ReduceOp) override {
    LOCKSTEP_THROW(Internal, "not used");
  }
  void barrier() override {}
  Tensor allocate(const Shape& shape, DType dtype) override {
    ++num_allocations;
    return zeros(shape, dtype);
  }
  void set_phase(const dist::Phase& phase) override { last_phase = phase; }
  dist::Phase last_phase;
  void abort(const std::string& reason) noexcept override { aborts.push_back(reason); }
  int64_t bytes_communicated() const override { return 0; }

 private:
  struct FakeWork final : dist::Work {
    FakeProcessGroup* group = nullptr;
    bool done = false;
    void wait() override {
      done = true;
      --group->num_open;
      LOCKSTEP_CHECK_KIND(PeerLost, group->failure.empty(), group->failure);
    }
    bool is_completed() const override { return done; }
  };

  /// Works are used again, so that a steady step allocates nothing.
  std::shared_ptr<FakeWork> next_work() {
    for (const auto& work : works_) {
      if (work.use_count() == 1) return work;
    }
    works_.push_back(std::make_shared<FakeWork>());
    works_.back()->group = this;
    return works_.back();
  }

  std::vector<std::shared_ptr<FakeWork>> works_;
};

}  // namespace lockstep::test
