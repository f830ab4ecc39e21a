// The tape, for authors of operations. An operation with one output records one Node; its edges say
// where the gradients of its inputs go: on to another node, or into a leaf.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd.h"
#include "core/base/pool.h"
#include "core/tensor.h"

namespace lockstep::autograd {

/// What a leaf carries for the tape: its gradient, the hooks, and the count of the current
/// backward.
struct Leaf {
  Tensor memory;  ///< where the gradient lives; may be a slice of a bucket
  GradState state = GradState::Undefined;
  std::vector<std::pair<int64_t, std::shared_ptr<GradHook>>> hooks;
  std::shared_ptr<const GradSync> sync;
  std::string name;  ///< the parameter's dotted path, set by DDP so that errors can name it
  int64_t next_hook_id = 1;
  uint64_t visit = 0;   ///< the backward that counted `pending`
  int64_t pending = 0;  ///< contributions still to come in it
};

/// One input's way back. Neither set: the input needs no gradient.
struct Edge {
  std::shared_ptr<Node> node;
  Tensor leaf;

  bool needs_grad() const { return node != nullptr || leaf.defined(); }
};

/// A tensor kept for backward: its elements outside the graph, and the version they had.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor);
  bool defined() const { return tensor_.defined(); }
  /// Throws Error naming `operation` when the elements were modified in place since.
  const Tensor& get(const char* operation) const;

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
};

class BackwardContext;
class Engine;  // autograd_engine.cpp

class Node {
 public:
  static constexpr int kMaxInputs = 4;

  Node(const char* name, const Tensor& output, std::initializer_list<Tensor> inputs);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Calls context.grad_input(i, ...) or pass_through(i, ...) once for every input; inputs that
  /// need no gradient are skipped inside. Leaves' hooks fire as soon as their call returns, so the
  /// order of the calls is the order in which DDP sees gradients: bias, then weight, then input.
  virtual void backward(BackwardContext& context) = 0;

  /// Drops saved tensors after the node has run.
  virtual void release() = 0;

  const char* name() const { return name_; }
  bool needs_grad(int input) const { return edges_[static_cast<size_t>(input)].needs_grad(); }

 private:
  friend class BackwardContext;
  friend class Engine;

  const char* name_;
  std::array<Edge, kMaxInputs> edges_;
  int num_inputs_ = 0;
  uint64_t sequence_;  ///< of creation: later nodes run earlier
  bool released_ = false;
  // The output's gradient during a backward.
  Shape shape_;
  DType dtype_;
  Device device_;
  Tensor grad_;
  bool grad_borrowed_ = false;  ///< grad_ is also somebody else's: copy before adding to it
  uint64_t visit_ = 0;
  int64_t pending_ = 0;
};

/// What a node's backward works with: the gradient of its output and destinations for its inputs.
class BackwardContext {
 public:
  const Tensor& grad_output() const { return node_.grad_; }

  /// grad_output whose elements the node may overwrite (copied first when somebody else reads
  /// them).
  const Tensor& mutable_grad_output();

  bool needs_grad(int input) const { return node_.needs_grad(input); }

  /// fill(const Tensor& destination, bool accumulate): writes dL/dinput to the destination, or adds
  /// it there. The destination has the input's shape; its dtype is the input's. Skipped when not
  /// needed.
  template <typename Fill>
  void grad_input(int input, Fill&& fill) {
    if (!begin(input)) return;
    const Destination destination = acquire(input);
    fill(destination.tensor, destination.accumulate);
    commit(input);
  }

  /// dL/dinput is `gradient` itself (same numel and dtype as the input): handed on without a copy
  /// where possible.
  void pass_through(int input, const Tensor& gradient);

 private:
  friend class Engine;
  struct Destination {
    Tensor tensor;
    bool accumulate;
  };
  BackwardContext(Engine& engine, Node& node) : engine_(engine), node_(node) {}
  bool begin(int input);
  Destination acquire(int input);
  void commit(int input);

  Engine& engine_;
  Node& node_;
  uint32_t done_ = 0;  ///< bit i: input i got its gradient
};

/// True when an operation on these inputs must be recorded.
bool should_record(std::initializer_list<Tensor> inputs);

namespace detail {

/// A node from a lambda and the tensors it saved: the closure style of a small autograd, without
/// std::function's allocation.
template <typename Saved, typename Backward>
class ClosureNode final : public Node {
 public:
  ClosureNode(const char* name, const Tensor& output, std::initializer_list<Tensor> inputs,
              Saved saved, Backward function)
      : Node(name, output, inputs), saved_(std::move(saved)), backward_(std::move(function)) {}
  void backward(BackwardContext& context) override { backward_(context, std::as_const(saved_)); }
  void release() override { saved_ = Saved{}; }

 private:
  Saved saved_;
  Backward backward_;
};

}  // namespace detail

/// Records output = name(inputs): `backward(BackwardContext&, const Saved&)` runs later. `saved` is
/// any default-constructible struct (SavedTensors and scalars). Call it only if
/// should_record(inputs):
///
///   struct Saved { SavedTensor output; };
///   autograd::record("relu", output, {input}, Saved{SavedTensor(output)},
///                    [](BackwardContext& context, const Saved& saved) {
///                      context.grad_input(0, [&](const Tensor& grad, bool accumulate) { ... });
///                    });
template <typename Saved, typename Backward>
void record(const char* name, Tensor& output, std::initializer_list<Tensor> inputs, Saved saved,
            Backward backward) {
  output.set_grad_fn(pool::make_shared<detail::ClosureNode<Saved, Backward>>(
      name, output, inputs, std::move(saved), std::move(backward)));
}

}  // namespace lockstep::autograd
