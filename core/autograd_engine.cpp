// The traversal. Backward first counts, from the root, how many contributions each node and leaf
// will get; then it runs nodes whose gradient is complete, latest first. Nothing recurses, and the
// lists are kept per thread, so that a steady step allocates nothing.
#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "core/autograd_node.h"
#include "core/tensor_impl.h"

namespace lockstep::autograd {

class Engine {
 public:
  void run(const Tensor& root, const Tensor& gradient, BackwardOptions options);

  bool running() const { return running_; }
  uint64_t id() const { return running_ ? id_ : 0; }
  void queue(BackwardCallback callback) { callbacks_.push_back(std::move(callback)); }

  // For BackwardContext: one input's gradient is about to be written, and has been written.
  BackwardContext::Destination acquire(const Edge& edge);
  void adopt(const Edge& edge, const Tensor& gradient, bool borrowed);
  void commit(const Edge& edge);

 private:
  void count(const std::shared_ptr<Node>& root);
  void visit(const Edge& edge);
  void run_nodes(BackwardOptions options);
  void run_node(Node& node, BackwardOptions options);
  void finish(bool completed);

  static bool earlier(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
    return a->sequence_ < b->sequence_;
  }

  bool running_ = false;
  uint64_t id_ = 0;
  std::vector<std::shared_ptr<Node>> stack_;  ///< nodes to visit while counting
  std::vector<std::shared_ptr<Node>> ready_;  ///< max-heap by sequence
  std::vector<BackwardCallback> callbacks_;
};

namespace {

thread_local Engine t_engine;

Tensor root_gradient(const Tensor& root, const Tensor& gradient) {
  if (!gradient.defined()) {
    LOCKSTEP_CHECK(root.numel() == 1, "backward: the tensor has shape ", root.shape(),
                   "; give the gradient with respect to it, or reduce it to one element first");
    return full(root.shape(), 1.0, root.dtype(), root.device());
  }
  LOCKSTEP_CHECK(gradient.shape() == root.shape() && gradient.dtype() == root.dtype(),
                 "backward: gradient is ", gradient.dtype(), " ", gradient.shape(), ", expected ",
                 root.dtype(), " ", root.shape());
  return gradient.detach();
}

}  // namespace

void Engine::visit(const Edge& edge) {
  if (edge.leaf.defined()) {
    Leaf& leaf = *edge.leaf.leaf();
    if (leaf.visit != id_) {
      leaf.visit = id_;
      leaf.pending = 0;
    }
    ++leaf.pending;
    return;
  }
  if (edge.node == nullptr) return;
  Node& node = *edge.node;
  if (node.visit_ != id_) {
    node.visit_ = id_;
    node.pending_ = 0;
    node.grad_ = Tensor();
    stack_.push_back(edge.node);
  }
  ++node.pending_;
}

void Engine::count(const std::shared_ptr<Node>& root) {
  visit(Edge{root, Tensor()});
  while (!stack_.empty()) {
    const std::shared_ptr<Node> node = std::move(stack_.back());
    stack_.pop_back();
    LOCKSTEP_CHECK(!node->released_, "backward: ", node->name_,
                   " was already differentiated and its saved tensors were dropped; pass "
                   "retain_graph to the first backward to run a second one");
    for (int i = 0; i < node->num_inputs_; ++i) visit(node->edges_[static_cast<size_t>(i)]);
  }
}

void Engine::run(const Tensor& root, const Tensor& gradient, BackwardOptions options) {
  LOCKSTEP_CHECK(!running_, "backward: called inside another backward of this thread");
  LOCKSTEP_CHECK(root.defined() && root.requires_grad(),
                 "backward: the tensor was not computed from anything that requires grad");
  const Tensor seed = root_gradient(root, gradient);
  running_ = true;
  ++id_;
  NoGradGuard guard;
  try {
    const Edge edge{root.grad_fn(), root.grad_fn() == nullptr ? root : Tensor()};
    if (edge.node != nullptr) {
      count(edge.node);
    } else {
      visit(edge);
    }
    adopt(edge, seed, /*borrowed=*/true);
    commit(edge);
    run_nodes(options);
  } catch (...) {
    finish(false);
    throw;
  }
  finish(true);
}

void Engine::run_nodes(BackwardOptions options) {
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), earlier);
    const std::shared_ptr<Node> node = std::move(ready_.back());
    ready_.pop_back();
    run_node(*node, options);
  }
}

void Engine::run_node(Node& node, BackwardOptions options) {
  BackwardContext context(*this, node);
  node.backward(context);
  for (int i = 0; i < node.num_inputs_; ++i) {
    LOCKSTEP_ASSERT(!node.needs_grad(i) || (context.done_ >> i & 1u) != 0, node.name_,
                    ": backward gave no gradient for input ", i);
  }
  node.grad_ = Tensor();
  node.visit_ = 0;  // ids are per thread: the next backward may be another thread's
  if (options.retain_graph) return;
  node.release();
  node.released_ = true;
}

// Callbacks may throw (the reducer reports parameters that were never reduced); the engine must be
// idle again by then, so that the next backward works.
void Engine::finish(bool completed) {
  std::vector<BackwardCallback> callbacks;
  callbacks.swap(callbacks_);
  stack_.clear();
  ready_.clear();
  running_ = false;
  std::exception_ptr first_error;
  for (const BackwardCallback& callback : callbacks) {
    try {
      callback(completed && first_error == nullptr);
    } catch (...) {
      if (first_error == nullptr) first_error = std::current_exception();
    }
  }
  callbacks.clear();
  if (callbacks_.empty()) callbacks_.swap(callbacks);  // keeps the capacity
  if (completed && first_error != nullptr) std::rethrow_exception(first_error);
}

BackwardContext::Destination Engine::acquire(const Edge& edge) {
  if (edge.leaf.defined()) {
    Leaf& leaf = *edge.leaf.leaf();
    const bool accumulate = leaf.state != GradState::Undefined;
    if (!leaf.memory.defined()) leaf.memory = empty_like(edge.leaf);
    return {leaf.memory, accumulate};
  }
  Node& node = *edge.node;
  const bool accumulate = node.grad_.defined();
  if (!accumulate) node.grad_ = empty(node.shape_, node.dtype_, node.device_);
  if (accumulate && node.grad_borrowed_) node.grad_ = node.grad_.clone();
  node.grad_borrowed_ = false;
  return {node.grad_, accumulate};
}

void Engine::adopt(const Edge& edge, const Tensor& gradient, bool borrowed) {
  if (edge.leaf.defined() || edge.node->grad_.defined()) {
    const BackwardContext::Destination destination = acquire(edge);
    if (destination.accumulate) {
      accumulate_elements(destination.tensor, gradient);
    } else {
      copy_elements(destination.tensor, gradient);
    }
    return;
  }
  Node& node = *edge.node;
  node.grad_ = Tensor::from_storage(gradient.storage(), gradient.storage_offset(), node.shape_,
                                    gradient.dtype());
  node.grad_borrowed_ = borrowed;
}

void Engine::commit(const Edge& edge) {
  if (edge.node != nullptr) {
    if (--edge.node->pending_ > 0) return;
    ready_.push_back(edge.node);
    std::push_heap(ready_.begin(), ready_.end(), earlier);
    return;
  }
  Leaf& leaf = *edge.leaf.leaf();
  leaf.state = GradState::Local;
  if (--leaf.pending > 0) return;
  leaf.visit = 0;
  // By id, not by place: a hook may remove itself or others.
  for (int64_t last = 0;;) {
    const auto next = std::find_if(leaf.hooks.begin(), leaf.hooks.end(),
                                   [last](const auto& entry) { return entry.first > last; });
    if (next == leaf.hooks.end()) return;
    last = next->first;
    const std::shared_ptr<GradHook> hook = next->second;
    (*hook)(edge.leaf);
  }
}

bool BackwardContext::begin(int input) {
  LOCKSTEP_ASSERT((done_ >> input & 1u) == 0, node_.name(), ": backward gave input ", input,
                  " two gradients");
  done_ |= 1u << input;
  return node_.needs_grad(input);
}

BackwardContext::Destination BackwardContext::acquire(int input) {
  return engine_.acquire(node_.edges_[static_cast<size_t>(input)]);
}

void BackwardContext::commit(int input) {
  engine_.commit(node_.edges_[static_cast<size_t>(input)]);
}

void BackwardContext::pass_through(int input, const Tensor& gradient) {
  if (!begin(input)) return;
  // The only taker of our own gradient owns it from now on; otherwise somebody else still reads it.
  int takers = 0;
  for (int i = 0; i < node_.num_inputs_; ++i) takers += node_.needs_grad(i) ? 1 : 0;
  const bool ours = gradient.is_same(node_.grad_) && !node_.grad_borrowed_;
  engine_.adopt(node_.edges_[static_cast<size_t>(input)], gradient, !(ours && takers == 1));
  commit(input);
}

const Tensor& BackwardContext::mutable_grad_output() {
  if (node_.grad_borrowed_) node_.grad_ = node_.grad_.clone();
  node_.grad_borrowed_ = false;
  return node_.grad_;
}

void backward(const Tensor& root, const Tensor& gradient, BackwardOptions options) {
  t_engine.run(root, gradient, options);
}

bool in_backward() { return t_engine.running(); }

uint64_t backward_id() { return t_engine.id(); }

void queue_callback(BackwardCallback callback) {
  LOCKSTEP_CHECK(t_engine.running(), "queue_callback: no backward is running in this thread");
  t_engine.queue(std::move(callback));
}

}  // namespace lockstep::autograd
