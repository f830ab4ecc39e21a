// The layers: initial values in the constructor, one operation in forward().
#include "core/nn/layers.h"

#include <cmath>
#include <typeinfo>
#include <utility>

#include "core/nn/init.h"
#include "core/random.h"

namespace lockstep::nn {

Linear::Linear(int64_t in_features, int64_t out_features, LinearOptions options) {
  // The weight's bound is 1 / sqrt(in) in exact arithmetic; PyTorch computes it as Kaiming's with
  // the slope sqrt(5), and so do we, for the last bit.
  Tensor initial = empty({out_features, in_features});
  init::kaiming_uniform_(initial, std::sqrt(5.0));
  weight = register_parameter("weight", std::move(initial));
  if (!options.bias) return;
  const double bound = in_features > 0 ? 1.0 / std::sqrt(static_cast<double>(in_features)) : 0.0;
  Tensor initial_bias = zeros({out_features});
  if (out_features > 0) uniform_(initial_bias, -bound, bound);
  bias = register_parameter("bias", std::move(initial_bias));
}

Tensor Linear::forward(const Tensor& input) { return ops::linear(input, weight, bias); }

Tensor Linear::forward_relu(const Tensor& input) {
  if (!bias.defined()) return ops::relu(forward(input));
  return ops::linear_relu(input, weight, bias);
}

Tensor ReLU::forward(const Tensor& input) { return ops::relu(input); }

Tensor GELU::forward(const Tensor& input) { return ops::gelu(input); }

Dropout::Dropout(double p) : p_(p) {
  LOCKSTEP_CHECK_KIND(Usage, p >= 0.0 && p <= 1.0, "Dropout: p is ", p, ", expected 0 to 1");
}

Tensor Dropout::forward(const Tensor& input) { return ops::dropout(input, p_, is_training()); }

LayerNorm::LayerNorm(int64_t normalized_size, double eps)
    : weight(register_parameter("weight", ones({normalized_size}))),
      bias(register_parameter("bias", zeros({normalized_size}))),
      eps_(eps) {
  LOCKSTEP_CHECK_KIND(Usage, normalized_size > 0, "LayerNorm: normalized_size is ", normalized_size,
                      ", expected at least 1");
}

Tensor LayerNorm::forward(const Tensor& input) {
  return ops::layer_norm(input, weight, bias, eps_);
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim) {
  Tensor initial = empty({num_embeddings, embedding_dim});
  if (initial.numel() > 0) normal_(initial);
  weight = register_parameter("weight", std::move(initial));
}

Tensor Embedding::forward(const Tensor& indices) { return ops::embedding(indices, weight); }

Sequential::Sequential(std::initializer_list<Item> modules) {
  for (const Item& item : modules) add(item.module_);
}

void Sequential::add(std::shared_ptr<Module> module) {
  register_module(std::to_string(modules_.size()), module);
  modules_.push_back(std::move(module));
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor output = input;
  for (size_t i = 0; i < modules_.size(); ++i) {
    Module& module = *modules_[i];
    const Module* next = i + 1 < modules_.size() ? modules_[i + 1].get() : nullptr;
    // Exactly these types: a subclass may compute something else.
    if (next != nullptr && typeid(module) == typeid(Linear) && typeid(*next) == typeid(ReLU)) {
      output = static_cast<Linear&>(module).forward_relu(output);
      ++i;
    } else {
      output = module.forward(output);
    }
  }
  return output;
}

}  // namespace lockstep::nn
