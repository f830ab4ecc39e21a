// Module: a named tree of parameters and buffers, and how they are walked, moved and saved.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace lockstep::nn {

/// A parameter or buffer with its dotted path: {"0.weight", tensor}.
using NamedTensor = std::pair<std::string, Tensor>;

/// Base of every layer. A subclass creates its tensors in its constructor, registers them under
/// their names, and computes in forward(). Tensors are handles, so the registered one *is* the
/// member. Modules move but do not copy.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  virtual Tensor forward(const Tensor& input) = 0;
  Tensor operator()(const Tensor& input) { return forward(input); }

  /// In registration order, a module's own before its children's; a parameter that occurs twice is
  /// listed once, under its first name (as torch.nn.Module.named_parameters).
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_buffers() const;

  /// Parameters and buffers under PyTorch's names, a shared one under each of its names; the
  /// tensors share memory with the module.
  std::vector<NamedTensor> state_dict() const;
  /// Copies the values in. Throws Error(BadData) listing every missing and unexpected name and
  /// every differing shape; then nothing was changed.
  void load_state_dict(const std::vector<NamedTensor>& state);

  /// Training mode (the default) or evaluation mode, for the whole tree.
  void train(bool mode = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  /// Moves every parameter and buffer in place; handles to them stay valid, gradients are dropped.
  void to(Device device);
  /// Converts floating parameters and buffers.
  void to(DType dtype);

  /// Forgets every gradient; touches no memory.
  void zero_grad();

 protected:
  /// Makes a leaf that requires grad and lists it.
  Tensor register_parameter(std::string name, Tensor parameter);
  Tensor register_buffer(std::string name, Tensor buffer);
  /// The child lives as long as the parent keeps it: `module` must outlive this (a member, or owned
  /// through a pointer that survives moves of the parent).
  void register_module(std::string name, std::shared_ptr<Module> module);

 private:
  enum class Kind { Parameters, Buffers, State };
  void collect(const std::string& prefix, Kind kind, std::vector<NamedTensor>& out) const;
  void check_name(const char* operation, const std::string& name) const;

  bool training_ = true;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

}  // namespace lockstep::nn
