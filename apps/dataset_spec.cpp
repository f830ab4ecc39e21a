// Names of data sets, and whether a model fits one.
#include "apps/dataset_spec.h"

#include <string_view>

#include "core/base/error.h"

namespace lockstep::apps {
namespace {

constexpr const char* kDocumentedModel = "linear:1000,10";

int64_t outputs_of(const std::string& model) {
  return model.empty() ? 0 : parse_model_spec(model).outputs();
}

}  // namespace

LoadedData load_data(const std::string& text, const std::string& model) try {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool has_path = colon != std::string::npos;
  if (kind == "synthetic" && !has_path) return {text, {}};
  if (kind == "digits" && !has_path) return {text, data::load_digits()};
  if (kind == "fashion-mnist" && has_path == !path.empty()) {
    return {text, has_path ? data::load_fashion_mnist(path) : data::load_fashion_mnist()};
  }
  if (kind == "idx" && !path.empty()) return {text, data::load_idx(path, outputs_of(model))};
  if (kind == "csv" && !path.empty()) return {text, data::load_csv(path, outputs_of(model))};
  LOCKSTEP_THROW(Usage, "--data \"", text,
                 "\": expected synthetic, digits, fashion-mnist[:DIR], idx:DIR or csv:FILE");
} catch (const Error& error) {
  // A label beyond the classes may be the data's fault or the model's.
  const std::string what = error.what();
  const bool is_label = error.kind() == ErrorKind::BadData && what.find("label") != what.npos;
  if (model.empty() || !is_label) throw;
  throw Error(error.kind(),
              concat(what, " (--model ", model, " has ", outputs_of(model), " outputs)"));
}

ModelSpec model_for(const std::string& text, const LoadedData& data) {
  if (!data.split) return parse_model_spec(text.empty() ? kDocumentedModel : text);
  const int64_t features = data.split->train.num_features();
  const int64_t classes = data.split->train.num_classes();
  const std::string fitting = concat("linear:", features, ",", classes);
  const ModelSpec spec = parse_model_spec(text.empty() ? fitting : text);
  LOCKSTEP_CHECK_KIND(Usage, spec.inputs() == features, "--model ", spec.text(), " takes ",
                      spec.inputs(), " numbers a sample, but --data ", data.name, " has ", features,
                      "; use for example --model ", fitting);
  LOCKSTEP_CHECK_KIND(Usage, spec.outputs() >= classes, "--model ", spec.text(), " has ",
                      spec.outputs(), " outputs, but --data ", data.name, " has ", classes,
                      " classes; use for example --model ", fitting);
  return spec;
}

}  // namespace lockstep::apps
