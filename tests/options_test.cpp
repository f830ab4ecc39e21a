// The command line as structs: defaults, every flag, and refusal by exception (never by exit).
#include "apps/options.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::apps {
namespace {

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "lockstep");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("train without flags has the values of the documented run") {
  const CommandLine line = parse({"train"});
  CHECK(line.command == Command::Train);
  const TrainOptions& options = line.train;
  CHECK(options.data == "synthetic");
  CHECK(options.model.empty());
  CHECK(options.optim == "sgd");
  CHECK(options.epochs == 5);
  CHECK(options.batch_size == 32);
  CHECK(options.accumulate == 1);
  CHECK(*options.lr == 0.01);
  CHECK(*options.weight_decay == 0.0);
  CHECK(options.momentum == 0.0);
  CHECK(options.seed == 0);
  CHECK(options.max_steps == -1);
  CHECK(options.bucket_cap_mb == 0.0);
  CHECK(options.clip_grad_norm == 0.0);
  CHECK(options.schedule == "none");
  CHECK(options.ranks.nproc == 0);
  CHECK(options.ranks.timeout == 600.0);
  CHECK_FALSE(options.quiet);
}

TEST_CASE("adamw has its own defaults") {
  const CommandLine line = parse({"train", "--optim", "adamw"});
  CHECK(*line.train.lr == 0.001);
  CHECK(*line.train.weight_decay == 0.01);
  CHECK(*parse({"train", "--optim", "adamw", "--weight-decay", "0"}).train.weight_decay == 0.0);
}

TEST_CASE("flags arrive where they belong") {
  const CommandLine line = parse({"train",      "--nproc",
                                  "4",          "--seed=7",
                                  "--model",    "mlp:8,4,2",
                                  "--lr",       "5e-2",
                                  "--momentum", "0.9",
                                  "--nesterov", "--accumulate",
                                  "3",          "--bucket-cap-mb",
                                  "0.5",        "--max-steps",
                                  "12",         "--eval-every",
                                  "0",          "--threads",
                                  "2",          "--timeout",
                                  "1.5",        "--save",
                                  "out",        "--load",
                                  "in",         "--json",
                                  "log",        "--quiet"});
  const TrainOptions& options = line.train;
  CHECK(options.ranks.nproc == 4);
  CHECK(options.ranks.threads == 2);
  CHECK(options.ranks.timeout == 1.5);
  CHECK(options.seed == 7);
  CHECK(options.model == "mlp:8,4,2");
  CHECK(*options.lr == 0.05);
  CHECK(options.momentum == 0.9);
  CHECK(options.nesterov);
  CHECK(options.accumulate == 3);
  CHECK(options.bucket_cap_mb == 0.5);
  CHECK(options.max_steps == 12);
  CHECK(options.eval_every == 0);
  CHECK(options.save == "out");
  CHECK(options.load == "in");
  CHECK(options.json == "log");
  CHECK(options.quiet);
}

/// The message with which the command line is refused as a usage error; empty when it is accepted.
std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Usage);
    return error.what();
  }
  return "";
}

void check_refused(const std::vector<const char*>& arguments, const std::string& part) {
  CAPTURE(part);
  CHECK(refusal(arguments).find(part) != std::string::npos);
}

TEST_CASE("an empty value, as of an unset shell variable, is not taken for a missing flag") {
  for (const char* flag : {"--nproc", "--epochs", "--lr", "--seed", "--model", "--save", "--json",
                           "--load", "--timeout", "--init-method"}) {
    check_refused({"train", flag, ""}, std::string(flag) + ": the value is empty");
  }
  check_refused({"eval", "--load", "w", "--data", "digits", "--model", ""}, "--model: the value");
}

TEST_CASE("the numbers that stand for a missing flag cannot be given") {
  check_refused({"train", "--nproc", "0"}, "--nproc 0: expected 1 or more");
  check_refused({"train", "--threads", "0"}, "--threads 0");
  check_refused({"train", "--max-steps", "-1"}, "--max-steps -1");
  check_refused({"train", "--rank", "-1"}, "--rank -1");
  check_refused({"train", "--local-rank", "-1"}, "--local-rank -1");
  check_refused({"train", "--rank", "0", "--world-size", "-1"}, "--world-size -1");
  check_refused({"bench", "--nproc", "0"}, "--nproc 0");
  CHECK(parse({"train", "--max-steps", "0", "--nproc", "1"}).train.max_steps == 0);
}

TEST_CASE("values that would overflow later are refused") {
  check_refused({"train", "--timeout", "1e300"}, "--timeout 1e+300");
  check_refused({"train", "--timeout", "1e-9"}, "--timeout 1e-09");
  check_refused({"train", "--bucket-cap-mb", "1e300"}, "--bucket-cap-mb 1e+300");
  check_refused({"train", "--bucket-cap-mb", "1e-300"}, "--bucket-cap-mb 1e-300");
  CHECK(parse({"train", "--timeout", "0.001"}).train.ranks.timeout == 0.001);
}

TEST_CASE("numbers that a schedule does not take are found before any rank starts") {
  check_refused({"train", "--schedule", "linear:0"}, "--schedule \"linear:0\"");
  check_refused({"train", "--schedule", "constant:2,3"}, "--schedule \"constant:2,3\"");
  check_refused({"train", "--schedule", "onecycle:0"}, "--schedule \"onecycle:0\"");
  CHECK(refusal({"train", "--schedule", "linear", "--epochs", "0"}).empty());
}

TEST_CASE("the log may not overwrite the weights") {
  check_refused({"train", "--json", "a", "--save", "a"}, "--json and --save");
  check_refused({"train", "--json", "a", "--load", "a"}, "--json and --load");
  CHECK(refusal({"train", "--save", "a", "--load", "a"}).empty());
}

TEST_CASE("help and version are text, errors are exceptions") {
  CHECK(parse({"--help"}).command == Command::Text);
  CHECK(parse({"train", "--help"}).text.find("--accumulate") != std::string::npos);
  CHECK(parse({"--version"}).text.find("lockstep ") == 0);
  for (const auto& arguments : std::vector<std::vector<const char*>>{
           {}, {"train", "--lr"}, {"train", "extra"}, {"train", "--seed", "x"}, {"--rank", "0"}}) {
    try {
      parse(arguments);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Usage);
    }
  }
}

}  // namespace lockstep::apps
