// `lockstep eval`: loss and accuracy of saved weights.
#include <string>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/dataset_spec.h"
#include "apps/evaluate.h"
#include "apps/model_spec.h"
#include "apps/number_format.h"
#include "apps/run_ranks.h"
#include "core/base/error.h"
#include "core/io/safetensors.h"

namespace lockstep::apps {
namespace {

/// The model came from the weights, so advice about --model would mislead.
void check_fits(const ModelSpec& spec, const std::string& path, const LoadedData& data) {
  const int64_t features = data.split->train.num_features();
  const int64_t classes = data.split->train.num_classes();
  LOCKSTEP_CHECK_KIND(BadData, spec.inputs() == features && spec.outputs() >= classes, path,
                      " holds the weights of ", spec.text(), ", but --data ", data.name, " has ",
                      features, " numbers a sample and ", classes,
                      " classes; give the data that the model was trained for");
}

}  // namespace

int run_eval(const EvalOptions& options) {
  const auto state = io::load_safetensors(options.load);
  ModelSpec spec =
      options.model.empty() ? model_spec_of(state, options.load) : parse_model_spec(options.model);
  const LoadedData loaded = load_data(options.data, spec.text());
  LOCKSTEP_CHECK_KIND(Usage, loaded.split.has_value(),
                      "eval --data synthetic: random labels have no accuracy; give real data");
  if (options.model.empty()) check_fits(spec, options.load, loaded);
  spec = model_for(spec.text(), loaded);
  check_weights(state, options.load, spec);
  const bool on_test = options.split == "test";
  const data::Dataset& dataset = on_test ? loaded.split->test : loaded.split->train;
  return run_ranks(options.ranks, [&](const std::shared_ptr<dist::ProcessGroup>& group) {
    const auto model = make_model(spec);
    model->load_state_dict(state);
    model->to(group->device());
    const Evaluation result = evaluate(*model, dataset, *group, options.batch_size);
    Console console(group->rank() == 0);
    console.line(concat(on_test ? "Test" : "Training", " accuracy: ", fixed(result.accuracy, 4),
                        ", loss: ", fixed(result.loss, 4), ", ", result.samples, " samples"));
  });
}

}  // namespace lockstep::apps
