// The layers, under PyTorch's names, with PyTorch's initial values (bit for bit on the CPU).
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/nn/module.h"
#include "core/ops.h"

namespace lockstep::nn {

struct LinearOptions {
  bool bias = true;
};

/// y = x * weight^T + bias; weight [out_features, in_features] and bias [out_features] start as
/// U(-1/sqrt(in), 1/sqrt(in)), weight drawn first. source: torch.nn.Linear
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, LinearOptions options = {});
  Tensor forward(const Tensor& input) override;
  /// relu(forward(input)) in one pass; Sequential uses it for Linear followed by ReLU.
  Tensor forward_relu(const Tensor& input);
  int64_t in_features() const { return weight.size(1); }
  int64_t out_features() const { return weight.size(0); }

  Tensor weight;
  Tensor bias;  ///< undefined without bias
};

/// max(x, 0). source: torch.nn.ReLU
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

/// x * Phi(x). source: torch.nn.GELU
class GELU : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

/// Zeroes elements with probability p in training. source: torch.nn.Dropout
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& input) override;

 private:
  double p_;
};

/// Over the last dimension of `normalized_size`; weight ones, bias zeros. source:
/// torch.nn.LayerNorm
class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t normalized_size, double eps = 1e-5);
  Tensor forward(const Tensor& input) override;

  Tensor weight;
  Tensor bias;

 private:
  double eps_;
};

/// Rows of weight [num_embeddings, embedding_dim] ~ N(0, 1); forward takes Int64 indices.
/// source: torch.nn.Embedding
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim);
  Tensor forward(const Tensor& indices) override;

  Tensor weight;
};

/// Modules one after the other, named "0", "1", ...:
///   nn::Sequential model{nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 10)};
/// Braces, because C++ evaluates what is in braces from left to right, so that the layers draw
/// their initial values in the order in which they stand; parentheses promise no order and do not
/// compile. source: torch.nn.Sequential
class Sequential : public Module {
 public:
  /// Any module by value, or one that is shared with others.
  class Item {
   public:
    template <std::derived_from<Module> M>
    Item(M module) : module_(std::make_shared<M>(std::move(module))) {}  // NOLINT: converts
    template <std::derived_from<Module> M>
    Item(std::shared_ptr<M> module) : module_(std::move(module)) {}  // NOLINT: converts

   private:
    friend class Sequential;
    std::shared_ptr<Module> module_;
  };

  Sequential() = default;
  Sequential(std::initializer_list<Item> modules);
  void add(std::shared_ptr<Module> module);
  Tensor forward(const Tensor& input) override;
  size_t size() const { return modules_.size(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

/// Not a Module with state, but a callable with options: criterion(logits, targets).
/// source: torch.nn.CrossEntropyLoss
class CrossEntropyLoss {
 public:
  CrossEntropyLoss() = default;
  explicit CrossEntropyLoss(ops::CrossEntropyOptions options) : options_(std::move(options)) {}
  Tensor operator()(const Tensor& logits, const Tensor& targets) const {
    return ops::cross_entropy(logits, targets, options_);
  }

 private:
  ops::CrossEntropyOptions options_;
};

}  // namespace lockstep::nn
