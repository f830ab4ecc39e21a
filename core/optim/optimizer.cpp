// What all optimizers do: choose the parameters that have a gradient, refuse gradients that DDP
// never averaged, count steps.
#include "core/optim/optimizer.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/autograd.h"
#include "core/ops/common.h"

namespace lockstep::optim {

std::vector<nn::NamedTensor> unnamed(const std::vector<Tensor>& parameters) {
  std::vector<nn::NamedTensor> result;
  result.reserve(parameters.size());
  for (const Tensor& parameter : parameters) result.emplace_back("", parameter);
  return result;
}

Optimizer::Optimizer(std::vector<nn::NamedTensor> parameters, double lr)
    : parameters_(std::move(parameters)), lr_(lr) {
  LOCKSTEP_CHECK(!parameters_.empty(), "optimizer: the list of parameters is empty");
  LOCKSTEP_CHECK_KIND(Usage, lr >= 0.0, "optimizer: lr is ", lr, ", expected 0 or more");
  std::vector<const void*> leaves;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    LOCKSTEP_CHECK(parameter.defined() && parameter.leaf() != nullptr, "optimizer: parameter ",
                   name_of(i), " is not a leaf that requires grad");
    leaves.push_back(parameter.leaf().get());
  }
  std::sort(leaves.begin(), leaves.end());
  LOCKSTEP_CHECK(std::adjacent_find(leaves.begin(), leaves.end()) == leaves.end(),
                 "optimizer: a parameter occurs twice in the list and would be stepped twice; list "
                 "each once, as named_parameters() does");
  active_.reserve(parameters_.size());
}

std::string Optimizer::name_of(size_t parameter) const {
  const auto& [name, tensor] = parameters_[parameter];
  if (!name.empty()) return name;
  if (tensor.defined() && tensor.leaf() != nullptr && !autograd::leaf_name(tensor).empty()) {
    return autograd::leaf_name(tensor);
  }
  return std::to_string(parameter);
}

double Optimizer::initial_lr() {
  if (!initial_lr_) initial_lr_ = lr_;
  return *initial_lr_;
}

void Optimizer::zero_grad() {
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.leaf() != nullptr) autograd::zero_grad(parameter);
  }
}

// Note [Unreduced gradients]
// A gradient of a DDP parameter that is still this rank's own would make the replicas drift apart
// silently: the backward bypassed DDP, or ran inside no_sync. Inside a live no_sync guard the user
// asked for exactly that.
void Optimizer::check_reduced(const std::vector<size_t>& active) const {
  const auto unreduced = [&](size_t i) {
    const Tensor& parameter = parameters_[i].second;
    const autograd::GradSync* sync = autograd::grad_sync(parameter);
    return sync != nullptr && sync->require_sync &&
           autograd::grad_state(parameter) == autograd::GradState::Local;
  };
  if (std::none_of(active.begin(), active.end(), unreduced)) return;
  std::ostringstream names;
  const char* separator = "";
  for (const size_t i : active) {
    if (unreduced(i)) names << std::exchange(separator, ", ") << name_of(i);
  }
  LOCKSTEP_THROW(Internal, "step: the gradients of these DDP parameters were never averaged over ",
                 "the ranks: ", names.str(), "; run the last backward before step() through the ",
                 "DistributedDataParallel module and outside no_sync (or step inside no_sync to ",
                 "update this replica alone)");
}

void Optimizer::step() {
  active_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    if (parameter.leaf() == nullptr) continue;  // frozen since
    if (autograd::grad_state(parameter) == autograd::GradState::Undefined) continue;
    ops::require_cpu("step", parameter);
    active_.push_back(i);
  }
  check_reduced(active_);
  apply(active_);
  for (const size_t i : active_) parameters_[i].second.bump_version();
  ++num_steps_;
}

}  // namespace lockstep::optim
