// Two model families, enough for the documented run and for real images.
#include "apps/model_spec.h"

#include <charconv>

#include "core/base/error.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr size_t kMaxLayers = 1000;

int64_t parse_size(const std::string& text, std::string_view part) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
  LOCKSTEP_CHECK_KIND(
      Usage,
      error == std::errc() && end == part.data() + part.size() && size >= 1 && size <= kMaxSize,
      "--model \"", text, "\": \"", part, "\" is not a layer size from 1 to ", kMaxSize);
  return size;
}

}  // namespace

std::string ModelSpec::text() const {
  std::string text = is_mlp ? "mlp:" : "linear:";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(sizes[i]);
  }
  return text;
}

ModelSpec parse_model_spec(const std::string& text) {
  constexpr const char* kExpected = "expected linear:IN,OUT or mlp:IN,HIDDEN,...,OUT";
  ModelSpec spec;
  const size_t colon = text.find(':');
  const std::string family = text.substr(0, colon);
  spec.is_mlp = family == "mlp";
  LOCKSTEP_CHECK_KIND(Usage, colon != std::string::npos && (spec.is_mlp || family == "linear"),
                      "--model \"", text, "\": ", kExpected);
  const std::string_view rest = std::string_view(text).substr(colon + 1);
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t comma = std::min(rest.find(',', begin), rest.size());
    spec.sizes.push_back(parse_size(text, rest.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  const size_t count = spec.sizes.size();
  LOCKSTEP_CHECK_KIND(Usage, count >= 2 && count <= kMaxLayers && (spec.is_mlp || count == 2),
                      "--model \"", text, "\": got ", count, " layer sizes; ", kExpected);
  return spec;
}

std::unique_ptr<nn::Module> make_model(const ModelSpec& spec) {
  if (!spec.is_mlp) return std::make_unique<nn::Linear>(spec.inputs(), spec.outputs());
  auto model = std::make_unique<nn::Sequential>();
  for (size_t i = 0; i + 1 < spec.sizes.size(); ++i) {
    if (i > 0) model->add(std::make_shared<nn::ReLU>());
    model->add(std::make_shared<nn::Linear>(spec.sizes[i], spec.sizes[i + 1]));
  }
  return model;
}

ModelSpec model_spec_of(const std::vector<nn::NamedTensor>& state, const std::string& path) {
  ModelSpec spec;
  std::vector<std::pair<int64_t, Tensor>> weights;  // position in the Sequential, weight
  for (const auto& [name, tensor] : state) {
    if (name == "weight" && tensor.dim() == 2) weights.emplace_back(0, tensor);
    int64_t index = -1;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, index);
    if (error == std::errc() && std::string_view(stop, end) == ".weight" && tensor.dim() == 2) {
      spec.is_mlp = true;
      weights.emplace_back(index, tensor);
    }
  }
  std::sort(weights.begin(), weights.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  bool fits = !weights.empty() && (spec.is_mlp || weights.size() == 1);
  for (const auto& [index, weight] : weights) {
    if (spec.sizes.empty()) spec.sizes.push_back(weight.size(1));
    fits = fits && weight.size(1) == spec.sizes.back() &&
           index == 2 * (static_cast<int64_t>(spec.sizes.size()) - 1);
    spec.sizes.push_back(weight.size(0));
  }
  LOCKSTEP_CHECK_KIND(BadData, fits, path,
                      ": its tensors are not those of a linear or mlp model (weight, bias or "
                      "0.weight, 0.bias, 2.weight, ...)");
  return spec;
}

void check_weights(const std::vector<nn::NamedTensor>& state, const std::string& path,
                   const ModelSpec& spec) {
  try {
    make_model(spec)->load_state_dict(state);
  } catch (const Error& error) {
    LOCKSTEP_THROW(BadData, path, " does not hold the weights of ", spec.text(), ": ",
                   error.what());
  }
}

}  // namespace lockstep::apps
