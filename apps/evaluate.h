// Loss and accuracy of a model on a data set, every sample counted once over all ranks.
#pragma once

#include <cstdint>

#include "core/data/dataset.h"
#include "core/nn/module.h"
#include "dist/process_group.h"

namespace lockstep::apps {

struct Evaluation {
  double loss = 0;      ///< mean cross-entropy
  double accuracy = 0;  ///< share of samples whose highest score is their label's
  int64_t samples = 0;
};

/// Rank r of W evaluates rows [r N/W, (r+1) N/W): no padding, so nothing is counted twice. Puts the
/// model into evaluation mode and back. A collective call; every rank gets the same result.
Evaluation evaluate(nn::Module& model, const data::Dataset& dataset, dist::ProcessGroup& group,
                    int64_t batch_size = 256);

}  // namespace lockstep::apps
