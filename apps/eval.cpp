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

int run_eval(const EvalOptions& options) {
  const auto state = io::load_safetensors(options.load);
  ModelSpec spec =
      options.model.empty() ? model_spec_of(state, options.load) : parse_model_spec(options.model);
  const LoadedData loaded = load_data(options.data, spec.text());
  spec = model_for(spec.text(), loaded);
  check_weights(state, options.load, spec);
  LOCKSTEP_CHECK_KIND(Usage, loaded.split.has_value(),
                      "eval --data synthetic: random labels have no accuracy; give real data");
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
