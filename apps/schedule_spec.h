// --schedule as text and as a learning-rate schedule. All advance once an epoch but onecycle, which
// advances once a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/optim/scheduler.h"

namespace lockstep::apps {

/// A schedule's name and its numbers, defaults filled in.
struct ScheduleSpec {
  std::string name;  ///< none, step, multistep, exponential, linear, constant, cosine, ...
  std::vector<double> values;

  bool is_per_step() const { return name == "onecycle"; }
};

/// NAME[:NUMBER,...]; `epochs` is the default length of those that have one. Throws Error(Usage).
ScheduleSpec parse_schedule_spec(const std::string& text, int64_t epochs);

/// Null for none. `total_steps`: optimizer steps of the whole run, for onecycle.
std::unique_ptr<optim::LRScheduler> make_scheduler(const ScheduleSpec& spec,
                                                   optim::Optimizer& optimizer,
                                                   int64_t total_steps);

/// The forms that parse_schedule_spec accepts, for messages and --help.
std::string schedule_forms(const std::string& separator = ", ");

}  // namespace lockstep::apps
