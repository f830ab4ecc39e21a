// The reducer: gradients live in buckets, and each bucket is averaged over the ranks as soon as
// backward has written its last slice. One for each DistributedDataParallel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/nn/module.h"
#include "dist/bucket.h"
#include "dist/process_group.h"

namespace lockstep::dist {

enum class ReducerEventKind : uint8_t {
  HookFired,       ///< a parameter's gradient is complete on this rank; index: the parameter
  BucketReady,     ///< the last of a bucket's gradients is complete; index: the bucket
  BucketLaunched,  ///< its all-reduce was issued
  BucketReduced,   ///< its all-reduce was seen to be over, at the next hook or in finalize
  Finalized,       ///< backward is over and every gradient is averaged; index: how many before
};

struct ReducerEvent {
  ReducerEventKind kind;
  int64_t index;

  friend bool operator==(const ReducerEvent&, const ReducerEvent&) = default;
};

class Reducer {
 public:
  /// Takes the parameters' gradients into engine-allocated buckets (defined ones are carried over)
  /// and registers hooks. Collective: the same parameters on every rank.
  /// throws Error when a parameter already belongs to another DistributedDataParallel
  Reducer(const std::vector<nn::NamedTensor>& parameters,
          std::shared_ptr<ProcessGroup> process_group, std::shared_ptr<autograd::GradSync> sync,
          BucketLimits limits);
  /// Gives the parameters gradients of their own again; values stay.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Before a forward whose backward will be synchronised. After the first such backward: adopts
  /// the order in which gradients arrived on rank 0 (collective, once).
  void begin_forward();

  /// `output` under a new handle through which backward enters: there the mode of the forward
  /// (inside or outside no_sync) is compared with that of the backward.
  Tensor watch(const Tensor& output);

  const std::vector<PlannedBucket>& plan() const { return plan_; }
  bool has_rebuilt() const { return rebuild_ == Rebuild::Done; }
  /// Backwards that ended with every gradient averaged.
  int64_t num_reductions() const { return num_reductions_; }
  /// Seconds, over all backwards, that this rank waited for buckets after its last gradient was
  /// complete: the communication that backward did not hide.
  double exposed_seconds() const { return exposed_seconds_; }
  /// True once the all-reduce of this backward's bucket is over. For tests and reports.
  bool is_reduced(int64_t bucket) const;

  /// Off by default, as the list grows with every step.
  void record_events(bool on) { recording_ = on; }
  const std::vector<ReducerEvent>& events() const { return events_; }
  void clear_events() { events_.clear(); }

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    std::shared_ptr<autograd::Leaf> leaf;  ///< the tensor's at construction
    autograd::HookHandle hook;
    Tensor slice;
    int64_t bucket = 0;
    bool ready = false;
  };
  struct Bucket {
    Tensor memory;
    int64_t pending = 0;  ///< members whose gradient is not complete
    std::shared_ptr<Work> work;
  };
  /// Outlives the reducer in the nodes of graphs that outlive it.
  struct Link {
    Reducer* reducer;
  };
  enum class Rebuild : uint8_t { WaitsForArrivals, Due, Done };

  // reducer.cpp
  void enter_backward(bool forward_synced);
  void begin_backward();
  void gradient_ready(size_t index);
  void launch(size_t bucket);
  void note_reduced();
  void finalize(bool completed);
  void wait_for_buckets();
  void drop_works() noexcept;
  void record(ReducerEventKind kind, int64_t index) {
    if (recording_) [[unlikely]]
      events_.push_back({kind, index});
  }
  // reducer_setup.cpp
  void adopt(std::vector<PlannedBucket> plan);
  void rebuild();
  // reducer_errors.cpp
  void give_up(const std::string& reason) noexcept;
  [[noreturn]] void throw_incomplete();
  [[noreturn]] void throw_mode_mismatch(bool forward_synced);
  [[noreturn]] void throw_moved(const Parameter& parameter);
  [[noreturn]] void rethrow_for_bucket(size_t bucket);
  std::string bucket_name(size_t bucket) const;

  std::vector<Parameter> parameters_;
  std::shared_ptr<ProcessGroup> process_group_;
  std::shared_ptr<autograd::GradSync> sync_;
  BucketLimits limits_;
  std::shared_ptr<Link> link_;
  std::vector<PlannedBucket> plan_;
  std::vector<Bucket> buckets_;

  // The backward in progress.
  bool active_ = false;
  size_t num_ready_ = 0;
  size_t next_launch_ = 0;   ///< buckets before it are launched
  size_t next_reduced_ = 0;  ///< buckets before it were seen reduced

  Rebuild rebuild_ = Rebuild::WaitsForArrivals;
  std::vector<int64_t> arrivals_;
  int64_t num_reductions_ = 0;
  double exposed_seconds_ = 0;
  bool recording_ = false;
  std::vector<ReducerEvent> events_;
};

}  // namespace lockstep::dist
