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
const std::vector<int64_t> kLayers = {kPixels, 256, 128, kClasses};

struct Measured {
  double seconds = 0;  ///< a step, on the slowest rank
  StepTimes times;     ///< of a step, on this rank
};

/// Trains a little to warm up, then for about `seconds`.
Measured measure_steps(TrainingJob job, const std::shared_ptr<dist::ProcessGroup>& group,
                       int64_t epochs_to_warm_up, double seconds) {
  Console silent(false);
  const auto run = [&](RankTraining& training, int64_t epochs) {
    job.options.epochs = epochs;
    TrainingLoop loop(training.parts(job, silent, nullptr));
    group->barrier();
    const Stopwatch watch;
    loop.run();
    Tensor slowest = full({1}, watch.seconds(), DType::Float64);
    group->all_reduce(slowest, dist::ReduceOp::Max);
    const auto steps = static_cast<double>(loop.num_steps());
    const StepTimes& sum = loop.times();
    return Measured{slowest.item() / steps,
                    {sum.data / steps, sum.forward / steps, sum.backward / steps,
                     sum.communication / steps, sum.optimizer / steps}};
  };
  RankTraining training(job, group);
  const auto steps_an_epoch = static_cast<double>(
      std::max<int64_t>(1, training.parts(job, silent, nullptr).source.batches_per_epoch()));
  const Measured warm = run(training, epochs_to_warm_up);
  const double epochs = seconds / (warm.seconds * steps_an_epoch);
  return run(training, std::max<int64_t>(1, static_cast<int64_t>(epochs)));
}

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
  const data::Dataset train(images, labels, kClasses, data::standard_scaling(pixels));
  job.data.split = data::Split{train, train};
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

/// Seconds of the bare products of one step, all ranks at once: forward of every layer, then from
/// the last to the first the weight's gradient and, but for the first, the input's.
double bare_product_seconds(dist::ProcessGroup& group, double seconds) {
  std::vector<BareLayer> layers;
  for (size_t i = 0; i + 1 < kLayers.size(); ++i) {
    layers.emplace_back(kImageBatch, kLayers[i], kLayers[i + 1]);
  }
  return collective_seconds_per_call(group, seconds, [&] {
    for (const BareLayer& layer : layers) {
      product(layer.output, layer.input, false, layer.weight, true);
    }
    for (size_t i = layers.size(); i-- > 0;) {
      const BareLayer& layer = layers[i];
      product(layer.grad_weight, layer.grad_output, true, layer.input, false);
      if (i > 0) product(layer.grad_input, layer.grad_output, false, layer.weight, false);
    }
  });
}

void print_parts(const StepTimes& times) {
  const std::pair<const char*, double> parts[] = {{"  data", times.data},
                                                  {"  forward", times.forward},
                                                  {"  backward", times.backward},
                                                  {"  exposed communication", times.communication},
                                                  {"  optimizer", times.optimizer}};
  for (const auto& [name, seconds] : parts) print_figure({name, seconds * 1e6, "us", "", 0});
}

}  // namespace

int bench_step(const BenchOptions& options) {
  const TrainingJob documented = documented_job();
  const TrainingJob images = image_job();
  return run_ranks(options.ranks, [&](const std::shared_ptr<dist::ProcessGroup>& group) {
    const bool reports = group->rank() == 0;
    const int ranks = group->world_size();
    const Measured step = measure_steps(documented, group, 100, options.seconds * 2);
    if (reports) {
      print_figure({concat("documented step, ", ranks, " ranks"), step.seconds * 1e6, "us", "", 0});
      print_parts(step.times);
    }
    const Measured mlp = measure_steps(images, group, 1, options.seconds * 4);
    const double bare = bare_product_seconds(*group, options.seconds * 2);
    if (!reports) return;
    const auto per_second = [&](double seconds) {
      return static_cast<double>(kImageBatch * ranks) / seconds;
    };
    print_figure({concat("MLP 784-256-128-10, batch 64, ", ranks, " ranks"),
                  per_second(mlp.seconds), "images/s", "bare products", per_second(bare)});
    print_parts(mlp.times);
  });
}

}  // namespace lockstep::apps
