// Reverse-mode differentiation: what users and DDP see of it. The tape itself is in autograd_node.h
// (for authors of operations) and autograd_engine.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/tensor.h"

namespace lockstep {

/// True while operations are recorded (per thread; true at start).
bool is_grad_enabled();

/// While it lives, operations of this thread are not recorded: torch.no_grad().
class [[nodiscard]] NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

/// The reverse: records inside a NoGradGuard (torch.enable_grad()).
class [[nodiscard]] EnableGradGuard {
 public:
  EnableGradGuard();
  ~EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  bool previous_;
};

namespace autograd {

/// A leaf's gradient: nothing yet, this rank's own sum, or the average over all ranks.
enum class GradState : uint8_t { Undefined, Local, Reduced };

/// Shared by a DistributedDataParallel and the leaves it reduces; optimizers consult it.
struct GradSync {
  bool require_sync = true;  ///< false inside a live no_sync guard
};

/// Called once a backward, after the last contribution to the leaf's gradient.
using GradHook = std::function<void(const Tensor& leaf)>;

/// Removes its hook when asked; dropping the handle leaves the hook in place (as in PyTorch).
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<Leaf> leaf, int64_t id) : leaf_(std::move(leaf)), id_(id) {}
  /// Removing twice, or after the leaf is gone, does nothing.
  void remove();

 private:
  std::weak_ptr<Leaf> leaf_;
  int64_t id_ = 0;
};

/// Adds to the leaf's list of post-accumulate hooks; they run in the order of registration.
/// Throws Error unless `leaf` is a leaf that requires grad.
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, GradHook hook);

GradState grad_state(const Tensor& leaf);

/// Forgets the gradient without touching its memory: the next contribution overwrites it.
void zero_grad(const Tensor& leaf);

/// Where this leaf's gradient is written from now on: a slice of a bucket, same shape, dtype and
/// device as the leaf. A defined gradient is carried over. An undefined `memory` gives the leaf its
/// own again.
void set_grad_memory(const Tensor& leaf, const Tensor& memory);

/// The memory set above or allocated by the first backward, whatever the state; may be undefined.
Tensor grad_memory(const Tensor& leaf);

/// Sets the gradient to a copy of `gradient` (state Local); undefined forgets it.
void set_grad(const Tensor& leaf, const Tensor& gradient);

/// The reducer tells that the slice now holds the average over ranks (or, hook by hook, what it
/// made).
void mark_reduced(const Tensor& leaf);

/// Puts the leaf under a DDP's care (empty: takes it away).
void set_grad_sync(const Tensor& leaf, std::shared_ptr<const GradSync> sync);
/// The DDP state of the leaf, or null.
const GradSync* grad_sync(const Tensor& leaf);

/// The parameter's dotted path ("0.weight"), so that errors name it wherever its tensor went. DDP
/// sets it; empty until then.
void set_leaf_name(const Tensor& leaf, std::string name);
const std::string& leaf_name(const Tensor& leaf);

struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors, so that backward may run again
};

/// Computes the gradient of `root` with respect to every leaf below it and adds it there.
/// root floating and in the graph; gradient of root's shape and dtype, or undefined for a scalar
/// (1). throws Error when root is not in the graph, was already differentiated (without
/// retain_graph), a saved tensor was modified in place, or inside another backward of this thread
/// source: torch.autograd.backward
void backward(const Tensor& root, const Tensor& gradient = Tensor(), BackwardOptions options = {});

/// True inside backward() of this thread.
bool in_backward();

/// A number that differs for each backward of this thread; 0 outside.
uint64_t backward_id();

/// Runs when the backward that is in progress in this thread ends: completed == false when it ends
/// by an exception (then the callback must not throw). Throws Error outside a backward.
using BackwardCallback = std::function<void(bool completed)>;
void queue_callback(BackwardCallback callback);

}  // namespace autograd
}  // namespace lockstep
