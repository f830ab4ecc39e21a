// Whole training steps: the documented one in its parts, and an MLP on images beside the bare
// matrix products of its layers.
#include <algorithm>
#include <vector>

#include "apps/bench.h"
#include "apps/console.h"
#include "apps/stopwatch.h"
#include "apps/training_job.h"
#include "core/base/error.h"
#include "core/random.h"
#include "kernels/gemm.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kImages = 20'000;
constexpr int64_t kPixels = 784;
constexpr int64_t kClasses = 10;
constexpr int64_t kImageBatch = 64;
const std::vector<int64_t> kDocumentedLayers = {1000, 10};
const std::vector<int64_t> kLayers = {kPixels, 256, 128, kClasses};

struct Measured {
  double seconds = 0;  ///< a step, on the slowest rank
  StepTimes times;     ///< of a step, on this rank
};

struct Comparison {
  Measured step;
  Measured bare;
};

TrainingJob documented_job() {
  TrainingJob job;
  job.model = parse_model_spec("linear:1000,10");
  job.options.lr = 0.01;
  job.options.weight_decay = 0.0;
  job.options.eval_every = 0;
  return job;
}

/// Random bytes as images: gathering and training cost what they cost with real ones.
TrainingJob image_job() {
  TrainingJob job = documented_job();
  job.model = ModelSpec{true, kLayers};
  job.options.batch_size = kImageBatch;
  Generator generator(0);
  std::vector<uint8_t> pixels(static_cast<size_t>(kImages * kPixels));
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(generator.random());
  const Tensor images = Tensor::from_values<uint8_t>(pixels, {kImages, kPixels});
  const Tensor labels = randint(0, kClasses, {kImages}, &generator);
  const auto scaling = data::standard_scaling(pixels);
  const data::Dataset train(images, labels, kClasses, scaling);
  // Evaluated once a round, in the time that is measured: as little as possible.
  pixels.resize(kPixels);
  const data::Dataset test(Tensor::from_values<uint8_t>(pixels, {1, kPixels}),
                           zeros({1}, DType::Int64), kClasses, scaling);
  job.data.split = data::Split{train, test};
  return job;
}

/// A layer's matrices for the bare products: each its own memory, as in training.
struct BareLayer {
  BareLayer(int64_t batch, int64_t num_inputs, int64_t num_outputs)
      : in(num_inputs),
        out(num_outputs),
        input(randn({batch, in})),
        weight(randn({out, in})),
        output(zeros({batch, out})),
        grad_output(randn({batch, out})),
        grad_weight(zeros({out, in})),
        grad_input(zeros({batch, in})) {}

  int64_t in, out;
  Tensor input, weight, output, grad_output, grad_weight, grad_input;
};

/// c [m, n] = a * b, each transposed or not.
void product(const Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b,
             bool transpose_b) {
  kernels::cpu::gemm<float>(c.data<float>(), c.size(1), {a.data<float>(), a.size(1), transpose_a},
                            {b.data<float>(), b.size(1), transpose_b}, c.size(0), c.size(1),
                            a.size(transpose_a ? 0 : 1), 1.0f, 0.0f);
}

/// The matrix products of one step and nothing else.
class BareProducts {
 public:
  explicit BareProducts(const std::vector<int64_t>& widths, int64_t batch) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers_.emplace_back(batch, widths[i], widths[i + 1]);
    }
  }

  void forward() {
    for (const BareLayer& layer : layers_) {
      product(layer.output, layer.input, false, layer.weight, true);
    }
  }

  /// From the last layer to the first the weight's gradient and, but for the first, the input's.
  void backward() {
    for (size_t i = layers_.size(); i-- > 0;) {
      const BareLayer& layer = layers_[i];
      product(layer.grad_weight, layer.grad_output, true, layer.input, false);
      if (i > 0) product(layer.grad_input, layer.grad_output, false, layer.weight, false);
    }
  }

 private:
  std::vector<BareLayer> layers_;
};

/// Trains for so many epochs; each rank gets its own parts, all get the slowest rank's step.
Measured measure_training(RankTraining& training, TrainingJob& job, dist::ProcessGroup& group,
                          int64_t epochs) {
  job.options.epochs = epochs;
  Console silent(false);
  TrainingLoop loop(training.parts(job, silent, nullptr));
  group.barrier();
  const Stopwatch watch;
  loop.run();
  Tensor slowest = full({1}, watch.seconds(), DType::Float64);
  group.all_reduce(slowest, dist::ReduceOp::Max);
  const auto steps = static_cast<double>(loop.num_steps());
  const StepTimes& sum = loop.times();
  return {.seconds = slowest.item() / steps,
          .times = {sum.data / steps, sum.forward / steps, sum.backward / steps,
                    sum.communication / steps, sum.optimizer / steps}};
}

Measured measure_products(BareProducts& products, dist::ProcessGroup& group, int64_t steps) {
  Measured result;
  group.barrier();
  const Stopwatch watch;
  for (int64_t step = 0; step < steps; ++step) {
    Stopwatch part;
    products.forward();
    result.times.forward += part.lap() / static_cast<double>(steps);
    products.backward();
    result.times.backward += part.lap() / static_cast<double>(steps);
  }
  Tensor slowest = full({1}, watch.seconds(), DType::Float64);
  group.all_reduce(slowest, dist::ReduceOp::Max);
  result.seconds = slowest.item() / static_cast<double>(steps);
  return result;
}

const Measured& median_of(std::vector<Measured>& rounds) {
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end(),
                   [](const Measured& a, const Measured& b) { return a.seconds < b.seconds; });
  return *middle;
}

/// A job's step and the bare products of its layers, in rounds that take turns.
Comparison compare(TrainingJob job, const std::vector<int64_t>& widths,
                   const std::shared_ptr<dist::ProcessGroup>& group, double seconds) {
  constexpr int kRounds = 7;
  constexpr int64_t kFirstSteps = 100;
  RankTraining training(job, group);
  BareProducts products(widths, job.options.batch_size);
  Console silent(false);
  const int64_t batches =
      std::max<int64_t>(1, training.parts(job, silent, nullptr).source.batches_per_epoch());
  const Measured first =
      measure_training(training, job, *group, std::max<int64_t>(1, kFirstSteps / batches));
  const Measured first_bare = measure_products(products, *group, kFirstSteps);
  const auto rounds_of = [&](const Measured& one, int64_t steps) {
    const double round = one.seconds * static_cast<double>(steps) * kRounds;
    return std::max<int64_t>(1, static_cast<int64_t>(seconds / round));
  };
  const int64_t epochs = rounds_of(first, batches);
  const int64_t steps = rounds_of(first_bare, 1);
  std::vector<Measured> trained;
  std::vector<Measured> bare;
  for (int round = 0; round < kRounds; ++round) {
    trained.push_back(measure_training(training, job, *group, epochs));
    bare.push_back(measure_products(products, *group, steps));
  }
  return {median_of(trained), median_of(bare)};
}

void print_parts(const Comparison& result) {
  const StepTimes& parts = result.step.times;
  const StepTimes& bare = result.bare.times;
  const auto print = [](const char* name, double seconds, double limit) {
    print_figure({name, seconds * 1e6, "us", limit > 0 ? "bare products" : "", limit * 1e6});
  };
  print("  data", parts.data, 0);
  print("  forward", parts.forward, bare.forward);
  print("  backward", parts.backward, bare.backward);
  print("  exposed communication", parts.communication, 0);
  print("  optimizer", parts.optimizer, 0);
}

}  // namespace

int bench_step(const BenchOptions& options) {
  const TrainingJob documented = documented_job();
  const TrainingJob images = image_job();
  return run_ranks(options.ranks, [&](const std::shared_ptr<dist::ProcessGroup>& group) {
    const bool reports = group->rank() == 0;
    const int ranks = group->world_size();
    const Comparison step = compare(documented, kDocumentedLayers, group, options.seconds * 2);
    if (reports) {
      print_figure({concat("documented step, ", ranks, " ranks"), step.step.seconds * 1e6, "us",
                    "bare products", step.bare.seconds * 1e6});
      print_parts(step);
    }
    const Comparison mlp = compare(images, kLayers, group, options.seconds * 4);
    if (!reports) return;
    const auto per_second = [&](const Measured& measured) {
      return static_cast<double>(kImageBatch * ranks) / measured.seconds;
    };
    print_figure({concat("MLP 784-256-128-10, batch 64, ", ranks, " ranks"), per_second(mlp.step),
                  "images/s", "bare products", per_second(mlp.bare)});
    print_parts(mlp);
  });
}

}  // namespace lockstep::apps
