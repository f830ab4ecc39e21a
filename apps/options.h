// What the user asked for on the command line, as plain structs. options.cpp is the one file that
// sees CLI11.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::apps {

/// What `train` and `eval` share: which ranks, where.
struct RankOptions {
  int64_t nproc = 0;        ///< 0: one a GPU, two where there is none
  int64_t world_size = -1;  ///< with rank: this process is one hand-started rank
  int64_t rank = -1;
  int64_t local_rank = -1;
  std::string init_method;
  std::string device = "auto";  ///< auto, cpu, cuda
  int64_t threads = 0;          ///< BLAS threads a rank; 0: cores / ranks
  double timeout = 600;         ///< seconds that any wait for another rank may take
};

struct TrainOptions {
  RankOptions ranks;
  int64_t seed = 0;
  std::string model;  ///< empty: linear:1000,10, or linear:FEATURES,CLASSES of the data
  std::string data = "synthetic";
  std::string optim = "sgd";
  int64_t epochs = 5;
  int64_t max_steps = -1;    ///< -1: no limit
  int64_t batch_size = 32;   ///< a rank
  std::optional<double> lr;  ///< 0.01 (sgd), 0.001 (adamw)
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  std::optional<double> weight_decay;  ///< 0 (sgd), 0.01 (adamw)
  std::string schedule = "none";
  double clip_grad_norm = 0;  ///< 0: no clipping
  int64_t accumulate = 1;
  double bucket_cap_mb = 0;  ///< 0: first bucket 1 MiB, then 25 MiB
  int64_t eval_every = 1;    ///< epochs; 0: only after the last
  std::string save;
  std::string load;
  std::string json;
  bool quiet = false;
};

struct EvalOptions {
  RankOptions ranks;
  std::string load;
  std::string model;
  std::string data;
  std::string split = "test";
  int64_t batch_size = 256;
};

struct BenchOptions {
  RankOptions ranks;
  std::vector<std::string> what;  ///< allreduce, step, data, linear, startup; empty: all
  double seconds = 0.5;           ///< roughly, a figure
};

enum class Command : uint8_t { Text, Train, Eval, Info, Bench };

/// One parsed command line. Command::Text: there is only something to print (help, version).
struct CommandLine {
  Command command = Command::Text;
  std::string text;
  TrainOptions train;
  EvalOptions eval;
  BenchOptions bench;
};

/// Parses argv[1..]. Checks single values; throws Error(Usage) naming the flag, what was given and
/// what was expected.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace lockstep::apps
