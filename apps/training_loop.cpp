// One step reads like the Python script; timers stand between its lines.
#include "apps/training_loop.h"

#include <algorithm>
#include <cmath>

#include "apps/number_format.h"
#include "apps/stopwatch.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include "dist/reducer.h"

namespace lockstep::apps {

TrainingLoop::TrainingLoop(TrainingParts parts)
    : parts_(parts),
      group_(parts.model.process_group()),
      gathered_(zeros({group_.world_size()}, DType::Float64)),
      mine_(zeros({1}, DType::Float64)) {}

void TrainingLoop::run() {
  for (int64_t epoch = 0; epoch < parts_.options.epochs; ++epoch) {
    if (step_ == parts_.options.max_steps) break;
    run_epoch(epoch);
    if (parts_.scheduler != nullptr && !parts_.schedule_per_step) parts_.scheduler->step();
  }
}

bool TrainingLoop::is_last(int64_t epoch) const {
  return epoch + 1 == parts_.options.epochs || step_ == parts_.options.max_steps;
}

void TrainingLoop::run_epoch(int64_t epoch) {
  EpochSums sums;
  Stopwatch watch;
  parts_.model.train();
  parts_.source.start_epoch(epoch);
  const int64_t batches = parts_.source.batches_per_epoch();
  const int64_t accumulate = parts_.options.accumulate;
  const int64_t steps = (batches + accumulate - 1) / accumulate;
  for (int64_t step = 0; step < steps && step_ != parts_.options.max_steps; ++step) {
    // The last step of an epoch has what is left; its loss is divided by that number.
    const double loss = run_step(epoch, std::min(accumulate, batches - step * accumulate), sums);
    parts_.console.progress(epoch, step + 1, steps, loss);
  }
  report_epoch(epoch, sums, watch.seconds());
}

double TrainingLoop::run_step(int64_t epoch, int64_t micro_batches, EpochSums& sums) {
  StepTimes times;
  double loss = 0;
  parts_.optimizer.zero_grad();
  // Only the last micro-batch communicates: it averages the sum of all.
  for (int64_t i = 0; i + 1 < micro_batches; ++i) {
    const auto guard = parts_.model.no_sync();
    loss += run_micro_batch(epoch, micro_batches, times, sums);
  }
  loss += run_micro_batch(epoch, micro_batches, times, sums);
  Stopwatch watch;
  group_.set_phase({"optimizer", step_});
  fault_point("optimizer", group_.rank());
  double grad_norm = -1;
  const double max_norm = parts_.options.clip_grad_norm;
  if (max_norm > 0) {
    grad_norm = optim::clip_grad_norm_(parts_.optimizer.named_parameters(), max_norm);
  }
  parts_.optimizer.step();
  times.optimizer += watch.lap();
  if (!parts_.options.json.empty()) {
    StepRecord record{epoch, step_, gather(loss), parts_.optimizer.lr(), grad_norm, times};
    if (parts_.log != nullptr) parts_.log->step(record);
  }
  if (parts_.scheduler != nullptr && parts_.schedule_per_step) parts_.scheduler->step();
  sums.loss += loss;
  sums.times += times;
  times_ += times;
  ++sums.steps;
  ++step_;
  return loss;
}

double TrainingLoop::run_micro_batch(int64_t epoch, int64_t micro_batches, StepTimes& times,
                                     EpochSums& sums) {
  Stopwatch watch;
  group_.set_phase({"data", step_});
  fault_point("data-loading", group_.rank());
  const data::Batch& batch = parts_.source.next();
  times.data += watch.lap();
  group_.set_phase({"forward", step_});
  fault_point("forward", group_.rank());
  Tensor loss = criterion_(parts_.model(batch.data), batch.target);
  if (micro_batches > 1) loss = loss / static_cast<double>(micro_batches);
  const double value = loss.item();
  check_finite(value, epoch);
  times.forward += watch.lap();
  group_.set_phase({"backward", step_});
  const double waited = parts_.model.reducer().exposed_seconds();
  loss.backward();
  const double communication = parts_.model.reducer().exposed_seconds() - waited;
  times.communication += communication;
  times.backward += watch.lap() - communication;
  sums.samples += batch.target.numel();
  return value;
}

void TrainingLoop::report_epoch(int64_t epoch, const EpochSums& sums, double seconds) {
  const bool has_test = parts_.test != nullptr;
  const double mean = sums.steps > 0 ? sums.loss / static_cast<double>(sums.steps) : 0;
  EpochRecord record{.epoch = epoch,
                     .lr = parts_.optimizer.lr(),
                     .samples = sums.samples * group_.world_size(),
                     .seconds = seconds,
                     .times = sums.times};
  if (has_test || !parts_.options.json.empty()) record.losses = gather(mean);
  const int64_t every = parts_.options.eval_every;
  if (has_test && (is_last(epoch) || (every > 0 && (epoch + 1) % every == 0))) {
    group_.set_phase({"evaluation", step_});
    const Evaluation result = evaluate(parts_.model.module(), *parts_.test, group_);
    record.evaluated = true;
    record.test_loss = result.loss;
    record.test_accuracy = result.accuracy;
    record.test_samples = result.samples;
  }
  if (group_.rank() != 0) return;
  if (parts_.log != nullptr) parts_.log->epoch(record);
  std::string text = "Epoch " + std::to_string(epoch) + ", Loss: ";
  if (!has_test) {  // the documented line: rank 0's own loss
    parts_.console.line(text + python_float(mean));
    return;
  }
  double sum = 0;
  for (const double loss : record.losses) sum += loss;
  text += fixed(sum / static_cast<double>(group_.world_size()), 4);
  if (record.evaluated) text += ", test accuracy: " + fixed(record.test_accuracy, 4);
  text += ", lr: " + python_float(record.lr) + ", images/s: " +
          grouped(static_cast<int64_t>(static_cast<double>(record.samples) / seconds));
  parts_.console.line(text);
}

void TrainingLoop::check_finite(double loss, int64_t epoch) const {
  LOCKSTEP_CHECK_KIND(BadData, std::isfinite(loss), "the loss is ", python_float(loss),
                      " in epoch ", epoch, ", step ", step_, ": lower --lr (now ",
                      python_float(parts_.optimizer.lr()),
                      "), try --clip-grad-norm 1, or look for extreme values in the data");
}

std::vector<double> TrainingLoop::gather(double value) {
  mine_.data<double>()[0] = value;
  group_.all_gather(gathered_, mine_);
  return gathered_.to_vector<double>();
}

}  // namespace lockstep::apps
