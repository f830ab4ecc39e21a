// Making and remaking buckets: memory from the engine, gradients re-pointed into it.
#include <algorithm>
#include <utility>

#include "core/autograd_node.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "dist/reducer.h"

namespace lockstep::dist {
namespace {

void check_free(const nn::NamedTensor& entry) {
  LOCKSTEP_CHECK(autograd::grad_sync(entry.second) == nullptr,
                 "DistributedDataParallel: parameter ", entry.first,
                 " already belongs to another DistributedDataParallel; wrap a module once");
}

}  // namespace

Reducer::Reducer(const std::vector<nn::NamedTensor>& parameters,
                 std::shared_ptr<ProcessGroup> process_group,
                 std::shared_ptr<autograd::GradSync> sync, BucketLimits limits)
    : process_group_(std::move(process_group)),
      sync_(std::move(sync)),
      limits_(limits),
      link_(std::make_shared<Link>(Link{this})) {
  for (const nn::NamedTensor& entry : parameters) check_free(entry);
  std::vector<BucketItem> items;
  for (const auto& [name, tensor] : parameters) {
    parameters_.push_back(Parameter{.name = name, .tensor = tensor, .leaf = tensor.leaf()});
    items.push_back({tensor.numel(), tensor.dtype(), tensor.device()});
  }
  arrivals_.reserve(parameters_.size());  // the hooks must not allocate
  const auto n = static_cast<int64_t>(parameters_.size());
  adopt(plan_buckets(items, reverse_order(n), limits_));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& tensor = parameters_[i].tensor;
    autograd::set_leaf_name(tensor, parameters_[i].name);
    autograd::set_grad_sync(tensor, sync_);
    parameters_[i].hook = autograd::register_post_accumulate_grad_hook(
        tensor, [this, i](const Tensor&) { gradient_ready(i); });
  }
}

Reducer::~Reducer() {
  link_->reducer = nullptr;
  drop_works();
  for (Parameter& parameter : parameters_) {
    parameter.hook.remove();
    if (parameter.tensor.leaf() != parameter.leaf) continue;  // frozen since
    autograd::set_grad_sync(parameter.tensor, nullptr);
    try {
      autograd::set_grad_memory(parameter.tensor, Tensor());
    } catch (const std::exception& error) {  // no memory for a copy: the bucket lives on
      log::warn("~DistributedDataParallel: ", parameter.name, " keeps its bucket: ", error.what());
    }
  }
}

// New memory first, then each gradient moves from its old slice to its new one; the old buckets are
// freed with the last leaf that leaves them.
void Reducer::adopt(std::vector<PlannedBucket> plan) {
  std::vector<Bucket> buckets;
  for (const PlannedBucket& planned : plan) {
    fault_point("bucket-allocation", process_group_->rank());
    // At least one element: a bucket of empty parameters is reduced like any other.
    const int64_t numel = std::max<int64_t>(planned.numel, 1);
    buckets.push_back(Bucket{process_group_->allocate(Shape({numel}), planned.dtype), 0, nullptr});
  }
  for (size_t b = 0; b < plan.size(); ++b) {
    const Tensor& memory = buckets[b].memory;
    for (size_t i = 0; i < plan[b].parameters.size(); ++i) {
      Parameter& parameter = parameters_[static_cast<size_t>(plan[b].parameters[i])];
      parameter.bucket = static_cast<int64_t>(b);
      parameter.slice =
          Tensor::from_storage(memory.storage(), memory.storage_offset() + plan[b].offsets[i],
                               parameter.tensor.shape(), parameter.tensor.dtype());
      autograd::set_grad_memory(parameter.tensor, parameter.slice);
    }
  }
  plan_ = std::move(plan);
  buckets_ = std::move(buckets);
}

void Reducer::begin_forward() {
  if (rebuild_ == Rebuild::Due) rebuild();
}

// Arrival orders may differ between ranks (they depend on the graph); all take rank 0's. The order
// of registration reversed is often the order of arrival already, and then nothing moves.
void Reducer::rebuild() {
  rebuild_ = Rebuild::Done;
  const auto n = static_cast<int64_t>(parameters_.size());
  const Tensor order = Tensor::from_values(arrivals_, {n}).to(process_group_->device());
  fault_point("rebuild", process_group_->rank());
  process_group_->broadcast(order, 0);
  const std::vector<int64_t> adopted = order.to_vector<int64_t>();
  std::vector<int64_t> sorted = adopted;
  std::sort(sorted.rbegin(), sorted.rend());
  LOCKSTEP_ASSERT(sorted == reverse_order(n), "rank 0's order of gradients is no permutation");
  std::vector<BucketItem> items;
  for (const Parameter& parameter : parameters_) {
    items.push_back(
        {parameter.tensor.numel(), parameter.tensor.dtype(), parameter.tensor.device()});
  }
  std::vector<PlannedBucket> plan = plan_buckets(items, adopted, limits_);
  if (plan != plan_) adopt(std::move(plan));
}

}  // namespace lockstep::dist
