// Construction makes the replicas equal; forward keeps buffers equal and hands the output to the
// reducer, which keeps gradients equal.
#include "dist/distributed_data_parallel.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/fault.h"
#include "dist/fingerprint.h"
#include "dist/reducer.h"

namespace lockstep::dist {

DistributedDataParallel::DistributedDataParallel(nn::Module& module,
                                                 std::shared_ptr<ProcessGroup> process_group,
                                                 DdpOptions options)
    : module_(module), process_group_(std::move(process_group)), options_(options) {
  LOCKSTEP_CHECK_KIND(Usage, process_group_ != nullptr,
                      "DistributedDataParallel: the process group is null; call "
                      "init_process_group first");
  const BucketLimits limits = bucket_limits(options_.bucket_cap_mb);
  process_group_->set_phase({"construction", -1, -1});
  fault_point("construction", process_group_->rank());
  // First of all, so that whatever differs between ranks is reported as such on each of them.
  check_fingerprints(
      *process_group_,
      model_fingerprint(module_,
                        {concat("option bucket_cap_mb ", options_.bucket_cap_mb),
                         concat("option broadcast_buffers ", options_.broadcast_buffers)}));
  const std::vector<nn::NamedTensor> parameters = module_.named_parameters();
  buffers_ = module_.named_buffers();
  check_device(parameters);
  check_device(buffers_);
  std::vector<nn::NamedTensor> trained;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(trained),
               [](const nn::NamedTensor& entry) { return entry.second.requires_grad(); });
  LOCKSTEP_CHECK(!trained.empty(),
                 "DistributedDataParallel: no parameter of the module requires grad, so there is "
                 "nothing to average; use the module itself");
  broadcast(parameters);
  broadcast(buffers_);
  sync_ = std::make_shared<autograd::GradSync>();
  reducer_ = std::make_unique<Reducer>(trained, process_group_, sync_, limits);
}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::check_device(const std::vector<nn::NamedTensor>& tensors) const {
  for (const auto& [name, tensor] : tensors) {
    LOCKSTEP_CHECK(tensor.device() == process_group_->device(), "DistributedDataParallel: ", name,
                   " is on ", tensor.device(), ", the process group on ", process_group_->device(),
                   "; call model.to(process_group->device()) first");
  }
}

// One broadcast a tensor: this runs once for parameters, and for the few and small buffers of a
// model before each forward.
void DistributedDataParallel::broadcast(const std::vector<nn::NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;
    fault_point("parameter-broadcast", process_group_->rank());
    process_group_->broadcast(tensor.detach(), 0);
    tensor.bump_version();
  }
}

Tensor DistributedDataParallel::forward(const Tensor& input) {
  // Evaluation and no_sync must not communicate: the other ranks need not be in a forward.
  const bool synced = is_grad_enabled() && sync_->require_sync;
  process_group_->set_phase({"forward", reducer_->num_reductions(), -1});
  if (synced) {
    reducer_->begin_forward();
    if (options_.broadcast_buffers && module_.is_training()) broadcast(buffers_);
  }
  const Tensor output = module_.forward(input);
  if (!is_grad_enabled() || !output.requires_grad()) return output;
  return reducer_->watch(output);
}

DistributedDataParallel::NoSyncGuard::NoSyncGuard(std::shared_ptr<autograd::GradSync> sync)
    : sync_(std::move(sync)), previous_(std::exchange(sync_->require_sync, false)) {}

DistributedDataParallel::NoSyncGuard::~NoSyncGuard() { sync_->require_sync = previous_; }

DistributedDataParallel::NoSyncGuard DistributedDataParallel::no_sync() {
  return NoSyncGuard(sync_);
}

}  // namespace lockstep::dist
