// --json FILE: one JSON object a line. The first names the schema and the run, then one object a
// step and one an epoch, then the end. docs/cli.md lists the fields.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/same_options.h"

namespace lockstep::apps {

/// Where the seconds of one step, or the sum over several steps, went on rank 0.
struct StepTimes {
  double data = 0;
  double forward = 0;
  double backward = 0;       ///< without the communication that it did not hide
  double communication = 0;  ///< exposed: time that backward waited for buckets
  double optimizer = 0;

  double total() const { return data + forward + backward + communication + optimizer; }
  StepTimes& operator+=(const StepTimes& other);
};

struct StepRecord {
  int64_t epoch = 0;
  int64_t step = 0;            ///< counted from 0 over the whole run
  std::vector<double> losses;  ///< one a rank
  double lr = 0;
  double grad_norm = -1;  ///< before clipping; negative without --clip-grad-norm
  StepTimes times;
};

struct EpochRecord {
  int64_t epoch = 0;
  std::vector<double> losses;  ///< mean over the epoch's steps, one a rank
  double lr = 0;
  int64_t samples = 0;  ///< seen by all ranks together
  double seconds = 0;   ///< of training, without evaluation
  StepTimes times;
  bool evaluated = false;
  double test_loss = 0;
  double test_accuracy = 0;
  int64_t test_samples = 0;
};

/// The first line: what ran where.
struct RunRecord {
  int world_size = 1;
  std::string engine;
  std::string device;
  std::string cpu_path;
  std::string blas;
  int threads = 1;  ///< of each rank's matrix products
  std::vector<RunFact> options;
};

class JsonLog {
 public:
  /// Throws Error(Io) when the file cannot be written.
  JsonLog(const std::string& path, const RunRecord& run);
  ~JsonLog();
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;

  void step(const StepRecord& record);
  void epoch(const EpochRecord& record);
  /// Writes the last line and what is buffered; throws Error(Io) when that fails.
  void finish(int64_t steps, double seconds);

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace lockstep::apps
