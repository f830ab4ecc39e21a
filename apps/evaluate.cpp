// Each rank sums over its own rows; one all-reduce makes the sums those of the whole set.
#include "apps/evaluate.h"

#include <algorithm>
#include <cmath>

#include "apps/number_format.h"
#include "core/autograd.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/data/data_loader.h"
#include "core/ops.h"
#include "core/random.h"

namespace lockstep::apps {
namespace {

/// Rows whose largest score is that of their target; the first of equal scores counts.
int64_t count_correct(const Tensor& logits, const Tensor& target) {
  const Tensor scores = logits.to(kCPU).to(DType::Float32);
  const float* row = scores.data<float>();
  const int64_t* wanted = target.data<int64_t>();
  const int64_t classes = scores.size(1);
  int64_t correct = 0;
  for (int64_t n = 0; n < scores.size(0); ++n, row += classes) {
    correct += std::max_element(row, row + classes) - row == wanted[n] ? 1 : 0;
  }
  return correct;
}

}  // namespace

Evaluation evaluate(nn::Module& model, const data::Dataset& dataset, dist::ProcessGroup& group,
                    int64_t batch_size) {
  const NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const auto [begin, end] = data::shard(dataset.size(), group.rank(), group.world_size());
  Generator generator;  // the loader draws; training's stream must not depend on evaluation
  data::DataLoader loader(dataset,
                          {.batch_size = batch_size,
                           .sampler = std::make_shared<data::SequentialSampler>(begin, end),
                           .generator = &generator});
  const ops::CrossEntropyOptions sum_of_losses{.reduction = ops::Reduction::Sum};
  fault_point("evaluation", group.rank());
  double loss = 0;
  int64_t correct = 0;
  for (const auto& [data, target] : loader) {
    const Tensor logits = model(data.to(group.device()));
    loss += ops::cross_entropy(logits, target.to(group.device()), sum_of_losses).item();
    correct += count_correct(logits, target);
  }
  model.train(was_training);
  Tensor sums = Tensor::from_values<double>({loss, static_cast<double>(correct)}, {2});
  fault_point("evaluation-reduce", group.rank());
  group.all_reduce(sums, dist::ReduceOp::Sum);
  const auto samples = static_cast<double>(dataset.size());
  const double total = sums.data<double>()[0];
  LOCKSTEP_CHECK_KIND(BadData, std::isfinite(total), "evaluation: the loss is ",
                      python_float(total),
                      ": the weights are not finite, or too large; train "
                      "with a lower --lr or with --clip-grad-norm 1");
  return {total / samples, sums.data<double>()[1] / samples, dataset.size()};
}

}  // namespace lockstep::apps
