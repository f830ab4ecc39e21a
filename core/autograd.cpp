// Grad mode, leaves and nodes: everything of autograd but the traversal (autograd_engine.cpp).
#include "core/autograd.h"

#include <algorithm>
#include <utility>

#include "core/autograd_node.h"

namespace lockstep {
namespace {

thread_local bool t_grad_enabled = true;

}  // namespace

bool is_grad_enabled() { return t_grad_enabled; }

NoGradGuard::NoGradGuard() : previous_(std::exchange(t_grad_enabled, false)) {}
NoGradGuard::~NoGradGuard() { t_grad_enabled = previous_; }
EnableGradGuard::EnableGradGuard() : previous_(std::exchange(t_grad_enabled, true)) {}
EnableGradGuard::~EnableGradGuard() { t_grad_enabled = previous_; }

namespace autograd {
namespace {

thread_local uint64_t t_next_sequence = 1;

Leaf& require_leaf(const Tensor& tensor, const char* operation) {
  LOCKSTEP_CHECK(tensor.defined() && tensor.leaf() != nullptr, operation,
                 ": expected a leaf that requires grad (call requires_grad_() on it first)");
  return *tensor.leaf();
}

void check_gradient(const char* operation, const Tensor& leaf, const Tensor& gradient) {
  LOCKSTEP_CHECK(gradient.shape() == leaf.shape() && gradient.dtype() == leaf.dtype() &&
                     gradient.device() == leaf.device(),
                 operation, ": gradient is ", gradient.dtype(), " ", gradient.shape(), " on ",
                 gradient.device(), ", expected ", leaf.dtype(), " ", leaf.shape(), " on ",
                 leaf.device());
}

}  // namespace

void HookHandle::remove() {
  const auto leaf = leaf_.lock();
  if (leaf == nullptr) return;
  std::erase_if(leaf->hooks, [this](const auto& entry) { return entry.first == id_; });
}

HookHandle register_post_accumulate_grad_hook(const Tensor& tensor, GradHook hook) {
  Leaf& leaf = require_leaf(tensor, "register_post_accumulate_grad_hook");
  const int64_t id = leaf.next_hook_id++;
  leaf.hooks.emplace_back(id, std::make_shared<GradHook>(std::move(hook)));
  return HookHandle(tensor.leaf(), id);
}

GradState grad_state(const Tensor& leaf) { return require_leaf(leaf, "grad_state").state; }

void zero_grad(const Tensor& leaf) { require_leaf(leaf, "zero_grad").state = GradState::Undefined; }

void set_grad_memory(const Tensor& tensor, const Tensor& memory) {
  Leaf& leaf = require_leaf(tensor, "set_grad_memory");
  if (!memory.defined()) {
    if (leaf.state != GradState::Undefined) leaf.memory = leaf.memory.clone();
    if (leaf.state == GradState::Undefined) leaf.memory = Tensor();
    return;
  }
  check_gradient("set_grad_memory", tensor, memory);
  if (leaf.state != GradState::Undefined && leaf.memory.raw_data() != memory.raw_data()) {
    NoGradGuard guard;
    Tensor(memory).copy_(leaf.memory);
  }
  leaf.memory = memory;
}

Tensor grad_memory(const Tensor& leaf) { return require_leaf(leaf, "grad_memory").memory; }

void set_grad(const Tensor& tensor, const Tensor& gradient) {
  Leaf& leaf = require_leaf(tensor, "set_grad");
  if (!gradient.defined()) {
    leaf.state = GradState::Undefined;
    return;
  }
  check_gradient("set_grad", tensor, gradient);
  NoGradGuard guard;
  if (!leaf.memory.defined()) leaf.memory = empty_like(tensor);
  leaf.memory.copy_(gradient);
  leaf.state = GradState::Local;
}

void mark_reduced(const Tensor& leaf) {
  require_leaf(leaf, "mark_reduced").state = GradState::Reduced;
}

void set_grad_sync(const Tensor& leaf, std::shared_ptr<const GradSync> sync) {
  require_leaf(leaf, "set_grad_sync").sync = std::move(sync);
}

const GradSync* grad_sync(const Tensor& leaf) { return require_leaf(leaf, "grad_sync").sync.get(); }

void set_leaf_name(const Tensor& leaf, std::string name) {
  require_leaf(leaf, "set_leaf_name").name = std::move(name);
}

const std::string& leaf_name(const Tensor& leaf) { return require_leaf(leaf, "leaf_name").name; }

SavedTensor::SavedTensor(const Tensor& tensor)
    : tensor_(tensor.detach()), version_(tensor.storage().version()) {}

const Tensor& SavedTensor::get(const char* operation) const {
  LOCKSTEP_CHECK(tensor_.storage().version() == version_, operation,
                 ": backward needs a tensor of shape ", tensor_.shape(),
                 " that was modified in place since forward (version ", tensor_.storage().version(),
                 ", saved at version ", version_, "); modify it after backward, or clone it first");
  return tensor_;
}

bool should_record(std::initializer_list<Tensor> inputs) {
  if (!t_grad_enabled) return false;
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& input) { return input.defined() && input.requires_grad(); });
}

Node::Node(const char* name, const Tensor& output, std::initializer_list<Tensor> inputs)
    : name_(name),
      sequence_(t_next_sequence++),
      shape_(output.shape()),
      dtype_(output.dtype()),
      device_(output.device()) {
  LOCKSTEP_ASSERT(inputs.size() <= edges_.size(), name, " has ", inputs.size(), " inputs");
  for (const Tensor& input : inputs) {
    Edge& edge = edges_[static_cast<size_t>(num_inputs_++)];
    if (!input.defined()) continue;
    edge.node = input.grad_fn();
    if (edge.node == nullptr && input.leaf() != nullptr) edge.leaf = input;
  }
}

// A chain of nodes is released without recursion, or a long chain would overflow the stack: nodes
// whose last owner is this edge move to a list first and are released from there one by one.
Node::~Node() {
  thread_local std::vector<std::shared_ptr<Node>> t_orphans;
  thread_local bool t_draining = false;
  for (Edge& edge : edges_) {
    if (edge.node != nullptr && edge.node.use_count() == 1)
      t_orphans.push_back(std::move(edge.node));
  }
  if (t_draining) return;
  t_draining = true;
  while (!t_orphans.empty()) {
    const std::shared_ptr<Node> orphan = std::move(t_orphans.back());
    t_orphans.pop_back();
  }
  t_draining = false;
}

}  // namespace autograd
}  // namespace lockstep
