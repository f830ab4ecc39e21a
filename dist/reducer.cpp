// The path of a backward through the reducer: entered, gradients ready, buckets launched in index
// order, finalized.
#include "dist/reducer.h"

#include <chrono>
#include <utility>

#include "core/autograd_node.h"
#include "core/base/error.h"
#include "core/base/fault.h"

namespace lockstep::dist {

// The node passes the gradient on untouched and costs no copy. It is where "inside or outside
// no_sync" can be compared, because forward and backward both pass here.
Tensor Reducer::watch(const Tensor& output) {
  struct Entry {
    std::shared_ptr<Link> link;
    bool synced = true;
  };
  Tensor watched = output.detach();
  autograd::record("DistributedDataParallel", watched, {output}, Entry{link_, sync_->require_sync},
                   [](autograd::BackwardContext& context, const Entry& entry) {
                     Reducer* reducer = entry.link->reducer;
                     LOCKSTEP_CHECK(reducer != nullptr,
                                    "backward: the DistributedDataParallel of this output is gone; "
                                    "it must live until backward has run");
                     reducer->enter_backward(entry.synced);
                     context.pass_through(0, context.grad_output());
                   });
  return watched;
}

void Reducer::enter_backward(bool forward_synced) {
  if (forward_synced != sync_->require_sync) throw_mode_mismatch(forward_synced);
  if (forward_synced) begin_backward();
}

// A backward that does not come through an output (a penalty on the weights alone, say) begins with
// its first gradient. Either way finalize() runs at its end, whatever happens in between.
void Reducer::begin_backward() {
  if (active_) return;
  autograd::queue_callback([this](bool completed) { finalize(completed); });
  active_ = true;
  num_ready_ = 0;
  next_launch_ = 0;
  next_reduced_ = 0;
  for (Parameter& parameter : parameters_) parameter.ready = false;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].pending = static_cast<int64_t>(plan_[b].parameters.size());
  }
  if (rebuild_ != Rebuild::Done) arrivals_.clear();
  process_group_->set_phase({"backward", num_reductions_, -1});
}

// The hook: once a backward for each leaf, after the last contribution to its gradient.
void Reducer::gradient_ready(size_t index) {
  record(ReducerEventKind::HookFired, static_cast<int64_t>(index));
  if (!sync_->require_sync) return;  // no_sync: the gradient stays local
  begin_backward();
  Parameter& parameter = parameters_[index];
  if (!parameter.leaf->memory.is_same(parameter.slice)) throw_moved(parameter);
  LOCKSTEP_ASSERT(!parameter.ready, "gradient of ", parameter.name, " was complete twice");
  parameter.ready = true;
  ++num_ready_;
  if (rebuild_ != Rebuild::Done) arrivals_.push_back(static_cast<int64_t>(index));
  if (recording_) note_reduced();
  fault_point("backward", process_group_->rank());
  if (--buckets_[static_cast<size_t>(parameter.bucket)].pending > 0) return;
  record(ReducerEventKind::BucketReady, parameter.bucket);
  // A bucket that is complete before its predecessors waits for them: so every rank issues the
  // same sequence of collectives, whatever the order of its gradients.
  while (next_launch_ < buckets_.size() && buckets_[next_launch_].pending == 0) {
    launch(next_launch_++);
  }
}

void Reducer::launch(size_t bucket) {
  for (const int64_t index : plan_[bucket].parameters) {
    const Parameter& parameter = parameters_[static_cast<size_t>(index)];
    // Somebody else's hook may have dropped the gradient; its memory holds an older one.
    if (parameter.leaf->state == autograd::GradState::Undefined) Tensor(parameter.slice).zero_();
  }
  process_group_->set_phase({"backward", num_reductions_, static_cast<int64_t>(bucket)});
  buckets_[bucket].work =
      process_group_->all_reduce_async(buckets_[bucket].memory, ReduceOp::Average);
  record(ReducerEventKind::BucketLaunched, static_cast<int64_t>(bucket));
}

bool Reducer::is_reduced(int64_t bucket) const {
  const auto index = static_cast<size_t>(bucket);
  if (!active_ || index >= next_launch_) return false;
  return buckets_[index].work->is_completed();
}

// Only recorded runs look: a steady step learns of it in finalize().
void Reducer::note_reduced() {
  while (next_reduced_ < next_launch_ && buckets_[next_reduced_].work->is_completed()) {
    record(ReducerEventKind::BucketReduced, static_cast<int64_t>(next_reduced_++));
  }
}

// Completeness first: a rank that waited for buckets while another one cannot launch them would
// wait for its deadline. Whoever is incomplete tells all and throws; the others' waits throw that.
void Reducer::finalize(bool completed) {
  active_ = false;
  if (!completed) {
    give_up("its backward ended by an exception");
    drop_works();
    return;
  }
  if (num_ready_ < parameters_.size()) throw_incomplete();
  wait_for_buckets();
  for (const Parameter& parameter : parameters_) {
    parameter.leaf->state = autograd::GradState::Reduced;
  }
  if (rebuild_ == Rebuild::WaitsForArrivals) rebuild_ = Rebuild::Due;
  record(ReducerEventKind::Finalized, num_reductions_++);
  process_group_->set_phase({"after backward", num_reductions_ - 1, -1});
}

// In index order, which is the order in which they were launched and end.
void Reducer::wait_for_buckets() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    process_group_->set_phase({"finalize", num_reductions_, static_cast<int64_t>(b)});
    fault_point("finalize", process_group_->rank());
    try {
      buckets_[b].work->wait();
    } catch (...) {
      rethrow_for_bucket(b);
    }
    buckets_[b].work.reset();
    if (b < next_reduced_) continue;
    next_reduced_ = b + 1;
    record(ReducerEventKind::BucketReduced, static_cast<int64_t>(b));
  }
  exposed_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
}

// After a failure: nothing may still write into the buckets when this returns.
void Reducer::drop_works() noexcept {
  for (Bucket& bucket : buckets_) {
    if (bucket.work == nullptr) continue;
    try {
      bucket.work->wait();
    } catch (...) {  // the failure itself is already on its way
    }
    bucket.work.reset();
  }
}

}  // namespace lockstep::dist
