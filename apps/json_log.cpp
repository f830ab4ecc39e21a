// The one file of the programs that sees nlohmann-json.
#include "apps/json_log.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/version.h"

namespace lockstep::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

Json times_object(const StepTimes& times) {
  return {{"data", times.data},           {"forward", times.forward},
          {"backward", times.backward},   {"communication", times.communication},
          {"optimizer", times.optimizer}, {"total", times.total()}};
}

}  // namespace

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  data += other.data;
  forward += other.forward;
  backward += other.backward;
  communication += other.communication;
  optimizer += other.optimizer;
  return *this;
}

struct JsonLog::File {
  std::string path;
  std::ofstream stream;

  void write(const Json& object) {
    fault_point("json-writing");
    stream << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    check("write to");
  }

  void check(const char* what) {
    LOCKSTEP_CHECK_KIND(Io, stream.good(), "--json: cannot ", what, " ", path, ": ",
                        std::strerror(errno));
  }
};

JsonLog::JsonLog(const std::string& path, const RunRecord& run) : file_(std::make_unique<File>()) {
  file_->path = path;
  file_->stream.open(path, std::ios::binary | std::ios::trunc);
  file_->check("open");
  Json options = Json::object();
  for (const auto& [name, value] : run.options) options[name] = value;
  file_->write({{"type", "run"},
                {"schema", "lockstep.train"},
                {"schema_version", kSchemaVersion},
                {"version", LOCKSTEP_VERSION_STRING},
                {"world_size", run.world_size},
                {"engine", run.engine},
                {"device", run.device},
                {"cpu_path", run.cpu_path},
                {"blas", run.blas},
                {"threads", run.threads},
                {"options", options}});
}

JsonLog::~JsonLog() = default;

void JsonLog::step(const StepRecord& record) {
  Json object = {{"type", "step"},      {"epoch", record.epoch},
                 {"step", record.step}, {"loss", record.losses},
                 {"lr", record.lr},     {"seconds", times_object(record.times)}};
  if (record.grad_norm >= 0) object["grad_norm"] = record.grad_norm;
  file_->write(object);
}

void JsonLog::epoch(const EpochRecord& record) {
  Json object = {{"type", "epoch"},
                 {"epoch", record.epoch},
                 {"loss", record.losses},
                 {"lr", record.lr},
                 {"samples", record.samples},
                 {"seconds", times_object(record.times)},
                 {"wall_seconds", record.seconds}};
  if (record.evaluated) {
    object["test_loss"] = record.test_loss;
    object["test_accuracy"] = record.test_accuracy;
    object["test_samples"] = record.test_samples;
  }
  file_->write(object);
}

void JsonLog::finish(int64_t steps, double seconds) {
  file_->write({{"type", "end"}, {"steps", steps}, {"wall_seconds", seconds}});
  file_->stream.flush();
  file_->check("write to");
}

}  // namespace lockstep::apps
