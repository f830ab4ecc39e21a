// W ranks on shards are one rank on the whole batch: bit for bit where the arithmetic is exact,
// else within a bound that follows from the rounding unit and the sizes of the numbers involved.
// And the replicas are the same bytes after every step.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <cmath>
#include <mutex>

#include "core/optim/optimizer.h"
#include "core/random.h"
#include "dist/distributed_data_parallel.h"
#include "tests/ddp_models.h"
#include "tests/ranks.h"

using namespace lockstep;        // NOLINT
using namespace lockstep::dist;  // NOLINT
using namespace lockstep::test;  // NOLINT

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int64_t kBatch = 84;  // divided by 1, 2, 3, 4 and 7
constexpr int64_t kInputs = 20;
constexpr int64_t kHidden = 16;
constexpr int64_t kClasses = 7;
constexpr double kUnit = 0x1p-24;  // half an ulp of 1 in fp32

/// |fl(sum of n products) - sum| <= gamma(n) * sum of |products|, in any order of summation.
double gamma(double n) { return n * kUnit / (1 - n * kUnit); }

struct Batch {
  Tensor input;   ///< [kBatch, kInputs] in [-1, 1)
  Tensor target;  ///< [kBatch] Int64
};

Batch make_batch(uint64_t seed) {
  manual_seed(seed);
  Tensor input = rand({kBatch, kInputs});
  std::vector<float> values = input.to_vector<float>();
  for (float& value : values) value = 2 * value - 1;
  return {Tensor::from_values(values, {kBatch, kInputs}), randint(0, kClasses, {kBatch})};
}

Tensor shard(const Tensor& tensor, const ProcessGroup& group) {
  const int64_t rows = kBatch / group.world_size();
  return tensor.slice(group.rank() * rows, (group.rank() + 1) * rows).clone();
}

Matrix to_matrix(const Tensor& tensor) {
  const int64_t rows = tensor.dim() == 2 ? tensor.size(0) : 1;
  const std::vector<float> values = tensor.to_vector<float>();
  return Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
             values.data(), rows, tensor.numel() / rows)
      .cast<double>();
}

nn::Sequential make_mlp(uint64_t seed) {
  manual_seed(seed);
  return nn::Sequential{nn::Linear(kInputs, kHidden), nn::ReLU(), nn::Linear(kHidden, kClasses)};
}

/// Runs `train(ddp, group)` on W ranks as threads and returns rank 0's result.
template <typename Result>
Result on_ranks(int world_size, const std::function<Result(ProcessGroup&)>& train) {
  std::mutex mutex;
  Result result;
  run_ranks(world_size, [&](ProcessGroup& group) {
    Result mine = train(group);
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) result = std::move(mine);
  });
  return result;
}

/// Forward error analysis of Linear-ReLU-Linear-cross-entropy and its backward, in doubles: an
/// upper bound of |computed - exact| for each gradient, to first order in the rounding unit, for
/// sums split over any number of ranks up to W.
struct MlpBounds {
  Matrix w0, b0, w1, b1;
};

MlpBounds mlp_bounds(const nn::Module& model, const Batch& batch, int world_size) {
  const auto parameters = model.named_parameters();
  const Matrix w0 = to_matrix(parameters[0].second);
  const Matrix b0 = to_matrix(parameters[1].second);
  const Matrix w1 = to_matrix(parameters[2].second);
  const Matrix b1 = to_matrix(parameters[3].second);
  const Matrix x = to_matrix(batch.input);
  const std::vector<int64_t> targets = batch.target.to_vector<int64_t>();
  const Matrix ones_column = Matrix::Ones(kBatch, 1);

  // Forward. err_* bounds the error of the matrix of the same name.
  const Matrix a = x * w0.transpose() + ones_column * b0;
  const Matrix abs_a = x.cwiseAbs() * w0.cwiseAbs().transpose() + ones_column * b0.cwiseAbs();
  const Matrix err_h = gamma(kInputs + 1) * abs_a;
  // Neither computation may see another sign than the exact one, or the ReLU's mask would differ.
  REQUIRE((a.cwiseAbs() - err_h).minCoeff() > 0);
  const Matrix mask = (a.array() > 0).cast<double>().matrix();
  const Matrix h = a.cwiseProduct(mask);
  const Matrix z = h * w1.transpose() + ones_column * b1;
  const Matrix err_z =
      gamma(kHidden + 1) * (h * w1.cwiseAbs().transpose() + ones_column * b1.cwiseAbs()) +
      err_h.cwiseProduct(mask) * w1.cwiseAbs().transpose();

  // g = (softmax(z) - onehot) / N. An error d of the logits changes a probability by a factor
  // within e^(+-2d); beyond that, the difference from the maximum, the logarithm of the sum and
  // the exponential round a few times, at values of at most the range of the logits.
  Matrix g(kBatch, kClasses);
  Matrix err_g(kBatch, kClasses);
  for (int64_t n = 0; n < kBatch; ++n) {
    const double top = z.row(n).maxCoeff();
    const double range = top - z.row(n).minCoeff();
    const double total = (z.row(n).array() - top).exp().sum();
    const double relative =
        2 * err_z.row(n).maxCoeff() + kUnit * (4 * range + 2 * std::log(total) + kClasses + 12);
    for (int64_t c = 0; c < kClasses; ++c) {
      const double p = std::exp(z(n, c) - top) / total;
      g(n, c) = (p - (targets[static_cast<size_t>(n)] == c ? 1 : 0)) / kBatch;
      err_g(n, c) = (relative * p) / kBatch + 3 * kUnit * std::abs(g(n, c));
    }
  }

  // Backward. A rank sums N/W samples, the average adds W terms times a rounded 1/W.
  const double sum = gamma(static_cast<double>(kBatch) + world_size + 3);
  const Matrix abs_g = g.cwiseAbs();
  const Matrix err_h_masked = err_h.cwiseProduct(mask);
  const Matrix abs_d = (abs_g * w1.cwiseAbs()).cwiseProduct(mask);
  const Matrix err_d =
      (gamma(kClasses) * abs_g * w1.cwiseAbs() + err_g * w1.cwiseAbs()).cwiseProduct(mask);
  MlpBounds bounds;
  bounds.w1 =
      sum * abs_g.transpose() * h + err_g.transpose() * h + abs_g.transpose() * err_h_masked;
  bounds.b1 = ones_column.transpose() * (sum * abs_g + err_g);
  bounds.w0 = (sum * abs_d + err_d).transpose() * x.cwiseAbs();
  bounds.b0 = ones_column.transpose() * (sum * abs_d + err_d);
  return bounds;
}

std::vector<Tensor> mlp_gradients(ProcessGroup& group, uint64_t seed) {
  nn::Sequential model = make_mlp(seed + static_cast<uint64_t>(group.rank()));
  DistributedDataParallel ddp(model, borrow(group));
  const Batch batch = make_batch(seed);
  const nn::CrossEntropyLoss criterion;
  criterion(ddp(shard(batch.input, group)), shard(batch.target, group)).backward();
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

/// Weights and bias after some SGD steps of softmax regression, and the sum over the steps of what
/// rounding can have added to their error (2-norm over all of them).
struct Trained {
  std::vector<Tensor> parameters;
  double rounding = 0;
};

double step_rounding(const nn::Linear& model, const Batch& batch, int world_size, double lr) {
  const Matrix w = to_matrix(model.weight);
  const Matrix b = to_matrix(model.bias);
  const Matrix x = to_matrix(batch.input);
  const Matrix abs_z =
      x.cwiseAbs() * w.cwiseAbs().transpose() + Matrix::Ones(kBatch, 1) * b.cwiseAbs();
  // One column of the weight's gradient is sum_n x_nj g_n. Over the classes, g_n = p_n - onehot has
  // a 2-norm of at most sqrt(2), and an error of at most (relative error of p_n) * 1.
  double squares = 0;
  double gradient = 0;
  for (int64_t j = 0; j <= kInputs; ++j) {  // the last column is the bias: its input is 1
    double error = 0;
    double size = 0;
    for (int64_t n = 0; n < kBatch; ++n) {
      const double input = (j < kInputs ? std::abs(x(n, j)) : 1) / kBatch;
      const double largest = abs_z.row(n).maxCoeff();
      // As in mlp_bounds, with logits of at most abs_z.
      const double relative =
          2 * gamma(kInputs + 1) * largest + kUnit * (10 * largest + kClasses + 20);
      const double sum = gamma(static_cast<double>(kBatch) + world_size + 3);
      error += input * (relative + std::sqrt(2.0) * sum);
      size += input * std::sqrt(2.0);
    }
    squares += error * error;
    gradient += size * size;
  }
  const double norm = std::sqrt(w.squaredNorm() + b.squaredNorm()) + lr * std::sqrt(gradient);
  return lr * std::sqrt(squares) + 2 * kUnit * norm;
}

Trained train_regression(ProcessGroup& group, int64_t steps, double lr) {
  manual_seed(static_cast<uint64_t>(group.rank()));
  nn::Linear model(kInputs, kClasses);
  DistributedDataParallel ddp(model, borrow(group));
  optim::SGD optimizer(ddp.parameters(), {.lr = lr});
  const nn::CrossEntropyLoss criterion;
  Trained trained;
  for (int64_t i = 0; i < steps; ++i) {
    const Batch batch = make_batch(static_cast<uint64_t>(100 + i));
    trained.rounding += step_rounding(model, batch, group.world_size(), lr);
    optimizer.zero_grad();
    criterion(ddp(shard(batch.input, group)), shard(batch.target, group)).backward();
    optimizer.step();
    expect(replicas_equal(group, model), "replicas differ after step ", i);
  }
  for (const Tensor& parameter : model.parameters()) {
    trained.parameters.push_back(parameter.clone());
  }
  return trained;
}

}  // namespace

TEST_CASE("where sums are exact, W ranks give the bits of one rank") {
  const auto gradients = [](ProcessGroup& group) {
    manual_seed(5);
    nn::Linear model(4, 3);
    DistributedDataParallel ddp(model, borrow(group));
    std::vector<float> values(kBatch * 4);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 31) - 15;
    const Tensor input = Tensor::from_values(values, {kBatch, 4});
    // The sum over the shard, scaled by W, averages to the sum over the batch.
    ops::mul(ops::sum(ddp(shard(input, group))), group.world_size()).backward();
    return std::vector<Tensor>{model.weight.grad().clone(), model.bias.grad().clone()};
  };
  const auto whole = on_ranks<std::vector<Tensor>>(1, gradients);
  CHECK(whole[1].to_vector<float>() == std::vector<float>(3, kBatch));
  for (const int world_size : {2, 4}) {
    CAPTURE(world_size);
    const auto shards = on_ranks<std::vector<Tensor>>(world_size, gradients);
    for (size_t i = 0; i < whole.size(); ++i) {
      CHECK(shards[i].to_vector<float>() == whole[i].to_vector<float>());
    }
  }
}

TEST_CASE("the gradients of a multi-layer model agree within the rounding of their sums") {
  for (const uint64_t seed : {1, 2}) {
    const auto gradients = [&](ProcessGroup& group) { return mlp_gradients(group, seed); };
    const auto whole = on_ranks<std::vector<Tensor>>(1, gradients);
    for (const int world_size : {1, 2, 3, 4, 7}) {
      const auto shards = on_ranks<std::vector<Tensor>>(world_size, gradients);
      const MlpBounds bounds = mlp_bounds(make_mlp(seed), make_batch(seed), world_size);
      double largest = 0;
      double tightest = 0;
      const Matrix* bound[] = {&bounds.w0, &bounds.b0, &bounds.w1, &bounds.b1};
      for (size_t i = 0; i < 4; ++i) {
        // Both computations are within the bound of the exact gradient.
        const Matrix difference = (to_matrix(shards[i]) - to_matrix(whole[i])).cwiseAbs();
        const Matrix allowed = 2 * *bound[i];
        CHECK((allowed - difference).minCoeff() >= 0);
        largest = std::max(largest, difference.maxCoeff());
        tightest = std::max(tightest, (difference.array() / allowed.array().max(1e-30)).maxCoeff());
      }
      MESSAGE("W = " << world_size << ", seed " << seed << ": largest difference " << largest
                     << ", at most " << tightest << " of its bound");
      if (world_size == 1) CHECK(largest == 0);
      if (world_size > 1) CHECK(largest > 0);  // else the comparison would compare nothing
    }
  }
}

// Gradient descent on a convex function whose gradient has Lipschitz constant L never increases
// the distance of two starting points while lr <= 2 / L, so rounding errors of the steps only add.
// For softmax regression L <= max_n (|x_n|^2 + 1) / 2.
TEST_CASE("training on shards stays as close to training on the whole batch as rounding allows") {
  constexpr int64_t kSteps = 10;
  constexpr double kLr = 0.15;
  static_assert(kLr <= 2 / ((kInputs + 1) / 2.0));
  const auto train = [](ProcessGroup& group) { return train_regression(group, kSteps, kLr); };
  const Trained whole = on_ranks<Trained>(1, train);
  for (const int world_size : {1, 2, 3, 4, 7}) {
    const Trained shards = on_ranks<Trained>(world_size, train);
    double squares = 0;
    for (size_t i = 0; i < 2; ++i) {
      squares += (to_matrix(shards.parameters[i]) - to_matrix(whole.parameters[i])).squaredNorm();
    }
    // Second-order terms are 1e-6 of these.
    const double bound = 1.001 * (whole.rounding + shards.rounding);
    MESSAGE("W = " << world_size << ": after " << kSteps << " steps |difference| "
                   << std::sqrt(squares) << ", bound " << bound);
    CHECK(std::sqrt(squares) <= bound);
    if (world_size == 1) CHECK(squares == 0);
    if (world_size > 1) CHECK(squares > 0);
  }
}

TEST_CASE("replicas are the same bytes after every step, and one flipped bit is seen") {
  run_both_forms(3, [](ProcessGroup& group) {
    nn::Sequential model = make_mlp(static_cast<uint64_t>(group.rank()));
    DistributedDataParallel ddp(model, borrow(group), {.bucket_cap_mb = kOneParameterBuckets});
    optim::SGD optimizer(ddp.parameters(), {.lr = 0.1, .momentum = 0.9});
    const nn::CrossEntropyLoss criterion;
    for (uint64_t i = 0; i < 5; ++i) {
      const Batch batch = make_batch(i);
      optimizer.zero_grad();
      criterion(ddp(shard(batch.input, group)), shard(batch.target, group)).backward();
      optimizer.step();
      expect(replicas_equal(group, model), "replicas differ after step ", i);
    }
    const std::vector<Tensor> parameters = model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      uint8_t* last = bytes_of(parameters[i]).data<uint8_t>() + parameters[i].nbytes() - 4;
      if (group.rank() == 1) *last ^= 1;  // the lowest bit of the last element
      expect(!replicas_equal(group, model), "a flipped bit of parameter ", i, " was not seen");
      if (group.rank() == 1) *last ^= 1;
      expect(replicas_equal(group, model), "replicas differ after flipping back");
    }
  });
}
