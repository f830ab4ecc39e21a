// The command line. CLI11 costs seconds of compile time a file, so it is seen only here; what the
// values must satisfy together is in options_check.cpp.
#include "apps/options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "apps/options_check.h"
#include "apps/schedule_spec.h"
#include "core/base/error.h"
#include "core/base/version.h"

namespace lockstep::apps {
namespace {

constexpr const char* kDescription =
    "Lockstep: distributed data-parallel training in one small binary.\n"
    "`lockstep train` alone is the documented run: Linear(1000, 10), random data, every rank one "
    "process.";

constexpr const char* kDataForms =
    "Data:       synthetic          fresh random numbers each step\n"
    "            digits             1,797 handwritten digits, inside this binary\n"
    "            fashion-mnist      from /usr/share/datasets, or fashion-mnist:DIR\n"
    "            idx:DIR            the four files of MNIST, plain or .gz\n"
    "            csv:FILE           numbers, the label last; every fifth row is for testing\n";

constexpr const char* kModelForms =
    "Models:     linear:IN,OUT      one linear layer\n"
    "            mlp:IN,A,B,OUT     linear layers with ReLU between them\n";

constexpr const char* kExitCodes =
    "Exit codes: 0 success, 64 usage, 65 bad data, 69 a rank was lost, 70 internal,\n"
    "            74 input or output, 75 a deadline passed, 128 + N ended by signal N";

constexpr const char* kDataHelp = "What to learn, as listed below";

std::string schedule_list() { return "Schedules:  " + schedule_forms("\n            ") + "\n"; }

void add_rank_options(CLI::App& command, RankOptions& options) {
  const std::string group = "Ranks";
  command
      .add_option("--nproc", options.nproc,
                  "Ranks to start on this machine [one a GPU; 2 where there is none]")
      ->group(group);
  command.add_option("--device", options.device, "Where to compute: auto, cpu or cuda")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--threads", options.threads,
                  "Threads of each rank's matrix products [cores / ranks, at least 1]")
      ->group(group);
  command
      .add_option("--rank", options.rank,
                  "This process is one hand-started rank, from 0 [else: RANK]")
      ->group(group);
  command
      .add_option("--world-size", options.world_size,
                  "How many ranks there are, with --rank [else: WORLD_SIZE]")
      ->group(group);
  command
      .add_option("--local-rank", options.local_rank,
                  "Index of this rank on its machine [else: LOCAL_RANK]")
      ->group(group);
  command
      .add_option("--init-method", options.init_method,
                  "Where hand-started ranks meet: env:// or file://PATH")
      ->group(group);
  command
      .add_option("--timeout", options.timeout, "Seconds to wait for another rank before giving up")
      ->capture_default_str()
      ->group(group);
}

void add_optimizer_options(CLI::App& command, TrainOptions& options) {
  const std::string group = "Optimizer";
  command.add_option("--optim", options.optim, "sgd or adamw")->capture_default_str()->group(group);
  command.add_option("--lr", options.lr, "Learning rate [0.01 for sgd, 0.001 for adamw]")
      ->group(group);
  command.add_option("--momentum", options.momentum, "Momentum (sgd)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--dampening", options.dampening, "Dampening of the momentum (sgd)")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--nesterov", options.nesterov, "Nesterov momentum (sgd)")->group(group);
  command
      .add_option("--weight-decay", options.weight_decay,
                  "Weight decay [0 for sgd, 0.01 for adamw]")
      ->group(group);
  command.add_option("--schedule", options.schedule, "Of the learning rate, listed below")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--clip-grad-norm", options.clip_grad_norm,
                  "Scale gradients down to this norm; 0: do not")
      ->capture_default_str()
      ->group(group);
}

void add_train(CLI::App& app, TrainOptions& options) {
  CLI::App& command = *app.add_subcommand("train", "Train a model on several ranks");
  command.footer(std::string(kModelForms) + kDataForms + schedule_list() + kExitCodes);
  const std::string group = "Training";
  command
      .add_option("--model", options.model,
                  "Listed below [linear:1000,10; for real data one linear layer]")
      ->group(group);
  command.add_option("--data", options.data, kDataHelp)->capture_default_str()->group(group);
  command.add_option("--epochs", options.epochs, "Passes over the data; synthetic: steps")
      ->capture_default_str()
      ->group(group);
  command.add_option("--max-steps", options.max_steps, "Stop after so many steps [no limit]")
      ->group(group);
  command.add_option("--batch-size", options.batch_size, "Samples a rank and micro-batch")
      ->capture_default_str()
      ->group(group);
  command.add_option("--accumulate", options.accumulate, "Micro-batches a step")
      ->capture_default_str()
      ->group(group);
  command.add_option("--seed", options.seed, "Random seed; rank r draws from seed + r")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--bucket-cap-mb", options.bucket_cap_mb,
                  "Size of gradient buckets in MiB [first 1, then 25]")
      ->group(group);
  command
      .add_option("--eval-every", options.eval_every,
                  "Evaluate after every so many epochs; 0: after the last only")
      ->capture_default_str()
      ->group(group);
  command.add_option("--load", options.load, "Start from the weights in this safetensors file")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--save", options.save, "Write the final weights to this safetensors file")
      ->type_name("FILE")
      ->group(group);
  add_optimizer_options(command, options);
  add_rank_options(command, options.ranks);
  command.add_option("--json", options.json, "Write one JSON object a step and an epoch to FILE")
      ->type_name("FILE")
      ->group("Output");
  command.add_flag("--quiet", options.quiet, "Print nothing but errors")->group("Output");
}

void add_eval(CLI::App& app, EvalOptions& options) {
  CLI::App& command = *app.add_subcommand("eval", "Measure the accuracy of saved weights");
  command.footer(std::string(kModelForms) + kDataForms + kExitCodes);
  const std::string group = "Evaluation";
  command.add_option("--load", options.load, "The safetensors file to evaluate")
      ->type_name("FILE")
      ->required()
      ->group(group);
  command.add_option("--data", options.data, kDataHelp)->required()->group(group);
  command.add_option("--model", options.model, "As in train [read from the weights' shapes]")
      ->group(group);
  command.add_option("--split", options.split, "test or train")
      ->capture_default_str()
      ->group(group);
  command.add_option("--batch-size", options.batch_size, "Samples a rank at a time")
      ->capture_default_str()
      ->group(group);
  add_rank_options(command, options.ranks);
}

void add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App& command =
      *app.add_subcommand("bench", "Measure this machine: each figure beside what limits it");
  command.footer(kExitCodes);
  command.add_option("what", options.what,
                     "Any of allreduce, step, data, linear, startup [all of them]");
  command.add_option("--seconds", options.seconds, "Roughly, for each figure")
      ->capture_default_str();
  add_rank_options(command, options.ranks);
}

/// Refuses what parsing takes for "not given": empty values (of an unset shell variable), and the
/// numbers that stand for a missing flag in the structs.
void check_given(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      LOCKSTEP_CHECK_KIND(Usage, !value.empty(), option->get_name(),
                          ": the value is empty; give one, or leave the flag out");
    }
  }
  const std::pair<const char*, int64_t> lowest[] = {{"--nproc", 1},      {"--threads", 1},
                                                    {"--rank", 0},       {"--world-size", 1},
                                                    {"--local-rank", 0}, {"--max-steps", 0}};
  for (const auto& [name, low] : lowest) {
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr || option->count() == 0) continue;
    const auto value = option->as<int64_t>();
    LOCKSTEP_CHECK_KIND(Usage, value >= low, name, " ", value, ": expected ", low, " or more");
  }
}

/// What to print when parsing ends in help, version or an error; errors are thrown.
std::string text_or_throw(const CLI::App& app, const CLI::ParseError& stop) {
  if (dynamic_cast<const CLI::CallForAllHelp*>(&stop) != nullptr) {
    return app.help("", CLI::AppFormatMode::All);
  }
  if (dynamic_cast<const CLI::CallForHelp*>(&stop) != nullptr) return app.help();
  if (dynamic_cast<const CLI::CallForVersion*>(&stop) != nullptr) {
    return std::string(stop.what()) + "\n";
  }
  const auto chosen = app.get_subcommands();
  const std::string name = chosen.empty() ? "" : " " + chosen.front()->get_name();
  LOCKSTEP_THROW(Usage, stop.what(), "; see `lockstep", name, " --help`");
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app(kDescription, "lockstep");
  app.set_help_flag("--help", "Print this help");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION_STRING, "Print the version");
  app.get_formatter()->column_width(30);
  app.require_subcommand(0, 1);
  app.footer(kExitCodes);
  add_train(app, line.train);
  add_eval(app, line.eval);
  add_bench(app, line.bench);
  app.add_subcommand("info", "Say what this binary is made of and what it found on this machine");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    line.text = text_or_throw(app, stop);
    return line;
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    LOCKSTEP_THROW(
        Usage, "no command given; there are train, eval, bench and info: see `lockstep --help`");
  }
  check_given(*chosen.front());
  const std::string name = chosen.front()->get_name();
  if (name == "train") {
    line.command = Command::Train;
    check_train_options(line.train);
  } else if (name == "eval") {
    line.command = Command::Eval;
    check_eval_options(line.eval);
  } else if (name == "bench") {
    line.command = Command::Bench;
    check_bench_options(line.bench);
  } else {
    line.command = Command::Info;
  }
  return line;
}

}  // namespace lockstep::apps
