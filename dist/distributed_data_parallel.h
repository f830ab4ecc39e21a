// DistributedDataParallel: the same model on every rank, gradients averaged during backward.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/nn/module.h"
#include "dist/process_group.h"

namespace lockstep::dist {

class Reducer;

struct DdpOptions {
  /// 0: first bucket 1 MiB, then 25 MiB. Given: the cap of every bucket, the first too.
  double bucket_cap_mb = 0;
  bool broadcast_buffers = true;
};

/// Wraps a module that outlives it. Construction is collective: the fingerprint of the model
/// (names, order, shapes, dtypes, requires_grad, buffers, options) is compared first, and a
/// difference is an Error on *every* rank that lists what differs; then parameters and buffers are
/// broadcast from rank 0. Parameters must be on the process group's device, and at least one must
/// require grad. source: torch.nn.parallel.DistributedDataParallel
class DistributedDataParallel {
 public:
  DistributedDataParallel(nn::Module& module, std::shared_ptr<ProcessGroup> process_group,
                          DdpOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// The module's forward. Its backward averages the gradients over all ranks and ends with every
  /// parameter reduced, or an Error that names those that were not. Collective in training when the
  /// module has buffers and broadcast_buffers is set, and in the second synchronised forward; a
  /// forward under a NoGradGuard or a no_sync guard communicates nothing, so one rank may evaluate.
  Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) { return forward(input); }

  /// While the guard lives, backward adds to local gradients and communicates nothing. Forward and
  /// backward must both be inside, or both outside: anything else throws.
  class [[nodiscard]] NoSyncGuard {
   public:
    explicit NoSyncGuard(std::shared_ptr<autograd::GradSync> sync);
    ~NoSyncGuard();
    NoSyncGuard(const NoSyncGuard&) = delete;
    NoSyncGuard& operator=(const NoSyncGuard&) = delete;

   private:
    std::shared_ptr<autograd::GradSync> sync_;
    bool previous_;
  };
  NoSyncGuard no_sync();

  nn::Module& module() { return module_; }
  ProcessGroup& process_group() { return *process_group_; }
  std::vector<nn::NamedTensor> named_parameters() const { return module_.named_parameters(); }
  std::vector<Tensor> parameters() const { return module_.parameters(); }
  void train(bool mode = true) { module_.train(mode); }
  void eval() { module_.eval(); }

  /// The reducer, for tests and reports: bucket plan, order of events.
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }

 private:
  void check_device(const std::vector<nn::NamedTensor>& tensors) const;
  void broadcast(const std::vector<nn::NamedTensor>& tensors);

  nn::Module& module_;
  std::shared_ptr<ProcessGroup> process_group_;
  DdpOptions options_;
  std::vector<nn::NamedTensor> buffers_;
  std::shared_ptr<autograd::GradSync> sync_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lockstep::dist
