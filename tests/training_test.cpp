// Whole training runs recorded from PyTorch: data, model, sampler, loss and optimizer together.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/nn/layers.h"
#include "core/optim/optimizer.h"
#include "core/random.h"
#include "tests/reference.h"

using namespace lockstep;

namespace {

struct Data {
  Tensor x;
  Tensor y;
};

Data make_data() {
  manual_seed(1234);
  Tensor x = randn({64, 8});
  return {x, randint(0, 4, {64})};
}

Data gather(const Data& data, const Tensor& order, int64_t begin, int64_t end) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = order.data<int64_t>()[i];
    const float* first = data.x.data<float>() + row * 8;
    x.insert(x.end(), first, first + 8);
    y.push_back(data.y.data<int64_t>()[row]);
  }
  return {Tensor::from_values(x, {end - begin, 8}), Tensor::from_values(y, {end - begin})};
}

struct Result {
  std::vector<double> losses;
  double parameter_sum = 0.0;
  double parameter_norm = 0.0;
};

/// Two epochs of four batches of 16, shuffled as DistributedSampler(seed 0) does with one rank.
template <typename MakeOptimizer>
Result train(MakeOptimizer&& make_optimizer) {
  const Data data = make_data();
  manual_seed(0);
  nn::Sequential model{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4)};
  const nn::CrossEntropyLoss criterion;
  const auto optimizer = make_optimizer(model.named_parameters());
  Result result;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    Generator shuffle(epoch);
    const Tensor order = randperm(64, &shuffle);
    for (int64_t begin = 0; begin < 64; begin += 16) {
      const Data batch = gather(data, order, begin, begin + 16);
      optimizer->zero_grad();
      const Tensor loss = criterion(model(batch.x), batch.y);
      loss.backward();
      optimizer->step();
      result.losses.push_back(loss.item());
    }
  }
  for (const Tensor& parameter : model.parameters()) {
    for (const float value : parameter.to_vector<float>()) {
      result.parameter_sum += static_cast<double>(value);
      result.parameter_norm += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  result.parameter_norm = std::sqrt(result.parameter_norm);
  return result;
}

/// The recorded values were reproduced to 1.6e-7 by an implementation in double; other orders of
/// summation in the matrix products are allowed for.
void check_run(const Result& actual, const std::vector<double>& losses, double sum, double norm) {
  constexpr double kTolerance = 2e-6;
  REQUIRE(actual.losses.size() == losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CAPTURE(actual.losses[i]);
    CHECK(std::abs(actual.losses[i] - losses[i]) <= kTolerance);
  }
  CHECK(std::abs(actual.parameter_sum - sum) <= kTolerance);
  CHECK(std::abs(actual.parameter_norm - norm) <= kTolerance);
}

}  // namespace

TEST_CASE("a run with SGD, momentum and weight decay gives PyTorch's losses and parameters") {
  const Result result = train([](std::vector<nn::NamedTensor> parameters) {
    return std::make_unique<optim::SGD>(
        std::move(parameters), optim::SGDOptions{.lr = .1, .momentum = .9, .weight_decay = 1e-4});
  });
  check_run(result,
            {1.35619736, 1.38039505, 1.37459576, 1.29046416, 1.35387444, 1.37767994, 1.28217638,
             1.09398925},
            -3.18637241, 2.80759247);
}

TEST_CASE("a run with AdamW gives PyTorch's losses and parameters") {
  const Result result = train([](std::vector<nn::NamedTensor> parameters) {
    return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions{.lr = 1e-2});
  });
  check_run(result,
            {1.35619736, 1.38032413, 1.36604452, 1.28630269, 1.33434701, 1.37414491, 1.28730106,
             1.12449527},
            -3.52538388, 2.76529896);
}
