// The file that --json writes: one object a line, with the fields that docs/cli.md lists.
#include "apps/json_log.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/run_binary.h"

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

std::vector<Json> objects_of(const std::string& path) {
  std::vector<Json> objects;
  for (const std::string& line : lines_of(TemporaryFolder::read(path))) {
    objects.push_back(Json::parse(line));
  }
  return objects;
}

std::vector<Json> log_of(std::vector<std::string> flags) {
  const TemporaryFolder folder;
  flags.insert(flags.begin(), "train");
  flags.insert(flags.end(), {"--quiet", "--json", folder.file("log")});
  const Finished finished = run_binary(flags);
  CAPTURE(finished.error);
  REQUIRE(finished.status == 0);
  return objects_of(folder.file("log"));
}

/// The parts of a step's time are there, none is negative, and they add up.
void check_seconds(const Json& seconds) {
  double sum = 0;
  for (const char* part : {"data", "forward", "backward", "communication", "optimizer"}) {
    CAPTURE(part);
    CHECK(seconds.at(part) >= 0);
    sum += seconds.at(part).get<double>();
  }
  CHECK(seconds.at("total").get<double>() == doctest::Approx(sum));
}

}  // namespace

TEST_CASE("the documented run: one object a step and one an epoch") {
  const auto objects = log_of({"--nproc", "3"});
  REQUIRE(objects.size() == 1 + 2 * 5 + 1);
  CHECK(objects[0].at("type") == "run");
  CHECK(objects[0].at("schema") == "lockstep.train");
  CHECK(objects[0].at("schema_version") == 1);
  CHECK(objects[0].at("world_size") == 3);
  CHECK(objects[0].at("engine") == "shm");
  CHECK(objects[0].at("options").at("model") == "linear:1000,10");
  CHECK(objects[0].at("options").at("seed") == "0");
  for (size_t epoch = 0; epoch < 5; ++epoch) {
    const Json& step = objects[1 + 2 * epoch];
    const Json& summary = objects[2 + 2 * epoch];
    CHECK(step.at("type") == "step");
    CHECK(step.at("step") == epoch);
    CHECK(step.at("loss").size() == 3);
    CHECK(step.at("lr") == 0.01);
    check_seconds(step.at("seconds"));
    CHECK_FALSE(step.contains("grad_norm"));
    CHECK(summary.at("type") == "epoch");
    CHECK(summary.at("loss") == step.at("loss"));
    CHECK(summary.at("samples") == 3 * 32);
    CHECK_FALSE(summary.contains("test_accuracy"));
    check_seconds(summary.at("seconds"));
  }
  CHECK(objects.back().at("type") == "end");
  CHECK(objects.back().at("steps") == 5);
}

TEST_CASE("real data: accuracy where it was measured, lr of the schedule, norm when clipped") {
  const auto objects =
      log_of({"--data", "digits", "--batch-size", "100", "--epochs", "4", "--eval-every", "3",
              "--schedule", "step:2", "--clip-grad-norm", "1", "--accumulate", "2"});
  std::vector<double> rates;
  std::vector<bool> evaluated;
  for (const Json& object : objects) {
    if (object.at("type") == "step") CHECK(object.at("grad_norm") > 0);
    if (object.at("type") != "epoch") continue;
    rates.push_back(object.at("lr"));
    evaluated.push_back(object.contains("test_accuracy"));
    CHECK(object.at("samples") == 1438);  // 1797 without every fifth
    if (evaluated.back()) CHECK(object.at("test_samples") == 359);
  }
  CHECK(rates == std::vector<double>{0.01, 0.01, 0.001, 0.001});
  CHECK(evaluated == std::vector<bool>{false, false, true, true});
  // 719 samples a rank, 8 micro-batches, 4 steps an epoch.
  CHECK(objects.back().at("steps") == 16);
}

TEST_CASE("--max-steps ends the run in the middle of an epoch, and that epoch is evaluated") {
  const auto objects = log_of({"--data", "digits", "--batch-size", "100", "--max-steps", "11"});
  CHECK(objects.back().at("steps") == 11);
  const Json& epoch = objects[objects.size() - 2];
  CHECK(epoch.at("epoch") == 1);
  CHECK(epoch.contains("test_accuracy"));
}

TEST_CASE("a file that cannot be opened is an Io error that names it") {
  try {
    const apps::JsonLog log("/nonexistent/log", apps::RunRecord{});
    FAIL_CHECK("opened");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Io);
    CHECK(std::string(error.what()).find("/nonexistent/log") != std::string::npos);
  }
}

}  // namespace lockstep::test
