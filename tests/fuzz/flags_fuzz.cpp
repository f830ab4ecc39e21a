// Fuzzes the command line: any arguments are a command whose values are in range, or Error(Usage)
// with a message of one line. The input is the arguments, one a line.
// Covers: apps/options.cpp
// Covers: apps/options_check.cpp
// Covers: apps/schedule_spec.cpp
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/model_spec.h"
#include "apps/options.h"
#include "apps/schedule_spec.h"
#include "core/base/error.h"
#include "core/nn/layers.h"
#include "core/optim/optimizer.h"

using namespace lockstep;

namespace {

void require(bool condition) {
  if (!condition) __builtin_trap();
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines{"lockstep"};
  while (!text.empty()) {
    const size_t end = text.find('\n');
    // An argument is a C string: what follows a NUL does not exist.
    lines.emplace_back(std::string(text.substr(0, end)).c_str());
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// A schedule that was accepted can be made, and gives a learning rate at every step.
void check_schedule(const apps::TrainOptions& options) {
  const apps::ScheduleSpec spec = apps::parse_schedule_spec(options.schedule, options.epochs);
  nn::Linear model(1, 1);
  optim::SGD optimizer(model.named_parameters(), {.lr = 0.1});
  const auto scheduler = apps::make_scheduler(spec, optimizer, options.epochs);
  require((scheduler == nullptr) == (spec.name == "none"));
}

void check_train(const apps::TrainOptions& options) {
  require(options.batch_size > 0 && options.epochs >= 0 && options.accumulate > 0);
  require(options.lr.has_value() && options.weight_decay.has_value());
  require(options.optim == "sgd" || options.optim == "adamw");
  if (!options.model.empty()) {
    const apps::ModelSpec spec = apps::parse_model_spec(options.model);
    require(apps::parse_model_spec(spec.text()).sizes == spec.sizes);
  }
  check_schedule(options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto lines = lines_of({reinterpret_cast<const char*>(data), size});
  std::vector<const char*> arguments;
  for (const std::string& line : lines) arguments.push_back(line.c_str());
  try {
    const apps::CommandLine line =
        apps::parse_command_line(static_cast<int>(arguments.size()), arguments.data());
    require((line.command == apps::Command::Text) == !line.text.empty());
    if (line.command == apps::Command::Train) check_train(line.train);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::Usage);
    const std::string_view message = error.what();
    require(!message.empty() && message.find('\n') == std::string_view::npos);
  }
  return 0;
}
