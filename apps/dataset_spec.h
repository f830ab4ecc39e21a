// --data as text and as data: loaded once, before the ranks start, so that they share its memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/model_spec.h"
#include "core/data/datasets.h"

namespace lockstep::apps {

struct LoadedData {
  std::string name;                  ///< as the user gave it
  std::optional<data::Split> split;  ///< absent: synthetic
};

/// synthetic, digits, fashion-mnist[:DIR], idx:DIR or csv:FILE. `model` (of --model, may be empty)
/// says how many classes a file may have.
/// throws Error(Usage) for another name, Error(Io) or Error(BadData) naming the file and the place
LoadedData load_data(const std::string& text, const std::string& model);

/// --model, or when it is empty the default: linear:1000,10, or linear:FEATURES,CLASSES of the
/// data. Throws Error(Usage) when the model does not take the data's features or has fewer outputs
/// than there are classes.
ModelSpec model_for(const std::string& text, const LoadedData& data);

}  // namespace lockstep::apps
