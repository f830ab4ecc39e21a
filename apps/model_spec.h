// --model as text, as numbers, and as a module.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/nn/layers.h"

namespace lockstep::apps {

struct ModelSpec {
  bool is_mlp = false;
  std::vector<int64_t> sizes;  ///< input, hidden sizes, output

  int64_t inputs() const { return sizes.front(); }
  int64_t outputs() const { return sizes.back(); }
  /// "mlp:784,256,10", as parse_model_spec reads it.
  std::string text() const;
};

/// linear:IN,OUT or mlp:IN,HIDDEN,...,OUT. Throws Error(Usage) with what was given and expected.
ModelSpec parse_model_spec(const std::string& text);

/// linear: one nn::Linear ("weight", "bias"). mlp: a Sequential of Linear with ReLU between them
/// ("0.weight", "0.bias", "2.weight", ...). Draws from the default generator, as PyTorch would.
std::unique_ptr<nn::Module> make_model(const ModelSpec& spec);

/// The spec whose module has exactly these parameters; throws Error(BadData) naming `path` when
/// they are not those of a linear or mlp model.
ModelSpec model_spec_of(const std::vector<nn::NamedTensor>& state, const std::string& path);

/// Throws Error(BadData) naming `path` unless `state` fits the spec's module (every difference is
/// listed).
void check_weights(const std::vector<nn::NamedTensor>& state, const std::string& path,
                   const ModelSpec& spec);

}  // namespace lockstep::apps
