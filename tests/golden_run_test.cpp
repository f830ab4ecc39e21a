// Replays real PyTorch runs (tests/golden/) with the binary: every rank's losses to 1e-6 relative,
// the final parameters to 1e-6 absolute, and the first random draws to the bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/model_spec.h"
#include "apps/number_format.h"
#include "core/base/cpu.h"
#include "core/io/safetensors.h"
#include "core/random.h"
#include "tests/run_binary.h"

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

constexpr double kLossTolerance = 1e-6;       // relative; stated with the recorded runs
constexpr double kParameterTolerance = 1e-6;  // absolute

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_TEST_DATA_DIR "/golden")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string golden_path(const std::string& name, const char* extension) {
  return LOCKSTEP_TEST_DATA_DIR "/golden/" + name + extension;
}

Json read_golden(const std::string& name) {
  return Json::parse(TemporaryFolder::read(golden_path(name, ".json")));
}

std::string number(const Json& config, const char* key) {
  return apps::python_float(config.at(key).get<double>());
}

std::string whole(const Json& config, const char* key) {
  return std::to_string(config.at(key).get<int64_t>());
}

std::string model_of(const Json& config) {
  const std::string hidden = config.at("hidden");
  const std::string in = whole(config, "in");
  const std::string out = whole(config, "out");
  return hidden.empty() ? "linear:" + in + "," + out : "mlp:" + in + "," + hidden + "," + out;
}

/// The run's config as flags of `lockstep train`.
std::vector<std::string> flags_of(const Json& config) {
  std::vector<std::string> flags = {"train", "--device", "cpu"};
  const auto add = [&](const char* flag, const std::string& value) {
    flags.insert(flags.end(), {flag, value});
  };
  add("--nproc", whole(config, "world"));
  add("--seed", whole(config, "seed"));
  add("--epochs", whole(config, "epochs"));
  add("--batch-size", whole(config, "batch"));
  add("--accumulate", whole(config, "micro"));
  add("--model", model_of(config));
  add("--bucket-cap-mb", number(config, "bucket_cap_mb"));
  add("--optim", config.at("optim"));
  add("--lr", number(config, "lr"));
  add("--weight-decay", number(config, "weight_decay"));
  if (config.at("optim") == "sgd") {
    add("--momentum", number(config, "momentum"));
    add("--dampening", number(config, "dampening"));
    if (config.at("nesterov") != 0) flags.push_back("--nesterov");
  }
  return flags;
}

/// losses[rank][epoch] from a --json file.
std::vector<std::vector<double>> losses_of(const std::string& path, size_t world_size) {
  std::vector<std::vector<double>> losses(world_size);
  for (const std::string& line : lines_of(TemporaryFolder::read(path))) {
    const Json object = Json::parse(line);
    if (object.at("type") != "epoch") continue;
    const auto values = object.at("loss").get<std::vector<double>>();
    REQUIRE(values.size() == world_size);
    for (size_t rank = 0; rank < world_size; ++rank) losses[rank].push_back(values[rank]);
  }
  return losses;
}

void compare_losses(const Json& golden, const std::vector<std::vector<double>>& losses) {
  double worst = 0;
  for (size_t rank = 0; rank < losses.size(); ++rank) {
    const auto expected = golden.at("ranks").at(rank).at("losses").get<std::vector<double>>();
    REQUIRE(losses[rank].size() == expected.size());
    for (size_t epoch = 0; epoch < expected.size(); ++epoch) {
      const double difference = std::fabs(losses[rank][epoch] / expected[epoch] - 1);
      CAPTURE(rank);
      CAPTURE(epoch);
      CAPTURE(losses[rank][epoch]);
      CAPTURE(expected[epoch]);
      CHECK(difference <= kLossTolerance);
      worst = std::max(worst, difference);
    }
  }
  MESSAGE("largest relative difference of a loss: ", worst);
}

/// Compares tensors of `actual` with those of `expected` under `prefix`.
void compare_parameters(const std::vector<nn::NamedTensor>& expected, const std::string& prefix,
                        const std::vector<nn::NamedTensor>& actual) {
  double worst = 0;
  size_t compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string wanted = name.substr(prefix.size());
    const auto found = std::find_if(actual.begin(), actual.end(),
                                    [&](const auto& named) { return named.first == wanted; });
    CAPTURE(wanted);
    REQUIRE(found != actual.end());
    REQUIRE(found->second.shape() == tensor.shape());
    const auto a = tensor.to_vector<float>();
    const auto b = found->second.to_vector<float>();
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    }
    ++compared;
  }
  CHECK(compared == actual.size());
  CHECK(worst <= kParameterTolerance);
  MESSAGE("largest difference of a parameter after '", prefix, "': ", worst);
}

}  // namespace

TEST_CASE("the binary replays every recorded run") {
  const auto names = golden_names();
  REQUIRE(names.size() >= 10);
  for (const std::string& name : names) {
    SUBCASE(name.c_str()) {
      const Json golden = read_golden(name);
      const TemporaryFolder folder;
      auto flags = flags_of(golden.at("config"));
      const std::string log = folder.file("log.jsonl");
      const std::string weights = folder.file("final.safetensors");
      flags.insert(flags.end(), {"--json", log, "--save", weights});
      const Finished finished = run_binary(flags);
      CAPTURE(finished.error);
      REQUIRE(finished.status == 0);
      compare_losses(golden, losses_of(log, golden.at("ranks").size()));
      const auto recorded = io::load_safetensors(golden_path(name, ".safetensors"));
      compare_parameters(recorded, "final.", io::load_safetensors(weights));
    }
  }
}

TEST_CASE("the initial weights and the first draws are those of the recorded runs") {
  if (cpu_capability() != CpuCapability::Avx2) {
    MESSAGE("SKIP: the runs were recorded on the AVX2 path, whose draws differ in the last bits");
    return;
  }
  for (const std::string& name : golden_names()) {
    CAPTURE(name);
    const Json golden = read_golden(name);
    const Json& config = golden.at("config");
    const auto recorded = io::load_safetensors(golden_path(name, ".safetensors"));
    for (int64_t rank = 0; rank < config.at("world"); ++rank) {
      manual_seed(static_cast<uint64_t>(config.at("seed").get<int64_t>() + rank));
      const auto model = apps::make_model(apps::parse_model_spec(model_of(config)));
      if (rank == 0) compare_parameters(recorded, "init.", model->state_dict());
      const int64_t batch = config.at("batch");
      const Json& first = golden.at("ranks").at(static_cast<size_t>(rank)).at("first");
      const auto data = randn({batch, config.at("in").get<int64_t>()}).to_vector<float>();
      const auto target = randint(0, config.at("out"), {batch}).to_vector<int64_t>();
      const auto expected_data = first.at("data").get<std::vector<double>>();
      const auto expected_target = first.at("target").get<std::vector<int64_t>>();
      REQUIRE(std::min(expected_data.size(), expected_target.size()) > 0);
      for (size_t i = 0; i < expected_data.size(); ++i) {
        CHECK(data[i] == static_cast<float>(expected_data[i]));
      }
      for (size_t i = 0; i < expected_target.size(); ++i) CHECK(target[i] == expected_target[i]);
    }
  }
}

}  // namespace lockstep::test
