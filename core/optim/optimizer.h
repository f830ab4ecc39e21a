// Optimizer: what SGD and AdamW share. A step is one pass over all parameters in one kernel call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/nn/module.h"
#include "core/tensor.h"

namespace lockstep::optim {

/// One group of values for all parameters; schedulers change some of them.
class Optimizer {
 public:
  /// Throws Error when the list is empty, a tensor is not a leaf that requires grad or occurs
  /// twice, or lr is negative.
  explicit Optimizer(std::vector<nn::NamedTensor> parameters, double lr);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient; the others are skipped (no decay, no momentum).
  /// throws Error naming the parameters when a DDP parameter's gradient was never reduced and no
  /// no_sync guard is live; then nothing was changed
  void step();
  void zero_grad();

  double lr() const { return lr_; }
  void set_lr(double lr) { lr_ = lr; }
  /// SGD's momentum, AdamW's beta1: what OneCycleLR moves against the learning rate.
  virtual double momentum() const = 0;
  virtual void set_momentum(double momentum) = 0;
  /// The learning rate that schedules start from: the current one at the first call, then fixed, so
  /// that several schedulers of one optimizer share it.
  double initial_lr();
  void set_initial_lr(double lr) { initial_lr_ = lr; }
  int64_t num_steps() const { return num_steps_; }
  const std::vector<nn::NamedTensor>& named_parameters() const { return parameters_; }

  /// Everything that is needed to continue bit for bit: "lr", "momentum", "num_steps", and the
  /// state of each parameter that was stepped ("0.weight.momentum_buffer"). The latter share
  /// memory.
  std::vector<nn::NamedTensor> state_tensors();
  /// Copies such a state in; parameters that it does not mention start anew. Throws Error(BadData)
  /// for an unknown name, a wrong shape or dtype, or half of a parameter's state; then nothing was
  /// changed.
  void load_state_tensors(const std::vector<nn::NamedTensor>& state);

 protected:
  /// Parameters [i] for i in `active` have a gradient, checked.
  virtual void apply(const std::vector<size_t>& active) = 0;

  /// What the state of one parameter consists of: {"exp_avg", its tensor}, ...; undefined tensors
  /// before the parameter's first step.
  struct Slot {
    const char* name;
    Tensor* tensor;
  };
  virtual std::vector<Slot> slots(size_t parameter) = 0;
  /// The parameter's own count of steps, null when the optimizer keeps none.
  virtual int64_t* step_counter(size_t parameter) = 0;

  /// The parameter's name, or its position when it has none.
  std::string name_of(size_t parameter) const;

  std::vector<nn::NamedTensor> parameters_;
  double lr_;
  int64_t num_steps_ = 0;

 private:
  void check_reduced(const std::vector<size_t>& active) const;
  void check_state(const std::map<std::string, Tensor>& given);

  std::optional<double> initial_lr_;
  std::vector<size_t> active_;  ///< kept, so that a steady step allocates nothing
};

/// {"", p}, {"", q}: for callers that have no names; errors and states then say the position.
std::vector<nn::NamedTensor> unnamed(const std::vector<Tensor>& parameters);

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
};

/// g = -grad if maximize else grad; g += weight_decay * p; buf = g the first time, then
/// momentum * buf + (1 - dampening) * g; g = g + momentum * buf if nesterov else buf; p -= lr * g.
/// Bit for bit PyTorch's on both CPU paths. throws Error(Usage) on values outside their range.
/// source: torch.optim.SGD
class SGD : public Optimizer {
 public:
  SGD(std::vector<nn::NamedTensor> parameters, SGDOptions options);
  SGD(const std::vector<Tensor>& parameters, SGDOptions options)
      : SGD(unnamed(parameters), options) {}
  ~SGD() override;
  double momentum() const override { return options_.momentum; }
  void set_momentum(double momentum) override { options_.momentum = momentum; }

 protected:
  void apply(const std::vector<size_t>& active) override;
  std::vector<Slot> slots(size_t parameter) override;
  int64_t* step_counter(size_t) override { return nullptr; }

 private:
  struct Work;  ///< the kernel's argument lists, kept from step to step
  SGDOptions options_;
  std::vector<Tensor> momentum_;  ///< undefined until the parameter's first step
  std::unique_ptr<Work> work_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

/// p *= 1 - lr * weight_decay; m = lerp(m, g, 1-beta1); v = beta2 v + (1-beta2) g^2;
/// p -= lr / (1-beta1^t) * m / (sqrt(v) / sqrt(1-beta2^t) + eps). source: torch.optim.AdamW
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<nn::NamedTensor> parameters, AdamWOptions options);
  AdamW(const std::vector<Tensor>& parameters, AdamWOptions options)
      : AdamW(unnamed(parameters), options) {}
  ~AdamW() override;
  double momentum() const override { return options_.beta1; }
  void set_momentum(double momentum) override { options_.beta1 = momentum; }

 protected:
  void apply(const std::vector<size_t>& active) override;
  std::vector<Slot> slots(size_t parameter) override;
  int64_t* step_counter(size_t parameter) override;

 private:
  struct State {
    Tensor exp_avg;
    Tensor exp_avg_sq;
    Tensor max_exp_avg_sq;  ///< amsgrad only
    int64_t step = 0;
  };
  struct Work;
  AdamWOptions options_;
  std::vector<State> state_;
  std::unique_ptr<Work> work_;
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), always multiplied, where norm is the
/// 2-norm of the vector of each gradient's 2-norm; returns norm. No gradient: 0.
/// throws Error when error_if_nonfinite and the norm is not finite (nothing was scaled)
/// source: torch.nn.utils.clip_grad_norm_
double clip_grad_norm_(const std::vector<nn::NamedTensor>& parameters, double max_norm,
                       bool error_if_nonfinite = false);

}  // namespace lockstep::optim
