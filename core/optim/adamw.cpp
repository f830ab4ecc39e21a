// AdamW: checks its options, keeps the averages, and hands all parameters to one kernel call.
#include "kernels/adamw.h"

#include <tuple>
#include <utility>

#include "core/optim/optimizer.h"

namespace lockstep::optim {

struct AdamW::Work {
  template <typename T>
  using List = std::vector<kernels::cpu::AdamWParameter<T>>;
  std::tuple<List<float>, List<double>, List<Half>, List<BFloat16>> lists;  // one a dtype
};

AdamW::AdamW(std::vector<nn::NamedTensor> parameters, AdamWOptions options)
    : Optimizer(std::move(parameters), options.lr),
      options_(options),
      state_(parameters_.size()),
      work_(std::make_unique<Work>()) {
  LOCKSTEP_CHECK_KIND(Usage, options.beta1 >= 0.0 && options.beta1 < 1.0, "AdamW: beta1 is ",
                      options.beta1, ", expected 0 or more and below 1");
  LOCKSTEP_CHECK_KIND(Usage, options.beta2 >= 0.0 && options.beta2 < 1.0, "AdamW: beta2 is ",
                      options.beta2, ", expected 0 or more and below 1");
  LOCKSTEP_CHECK_KIND(Usage, options.eps >= 0.0, "AdamW: eps is ", options.eps,
                      ", expected 0 or more");
  LOCKSTEP_CHECK_KIND(Usage, options.weight_decay >= 0.0, "AdamW: weight_decay is ",
                      options.weight_decay, ", expected 0 or more");
}

AdamW::~AdamW() = default;

void AdamW::apply(const std::vector<size_t>& active) {
  std::apply([](auto&... list) { (list.clear(), ...); }, work_->lists);
  for (const size_t i : active) {
    const Tensor& parameter = parameters_[i].second;
    const Tensor grad = parameter.grad();
    State& state = state_[i];
    if (!state.exp_avg.defined()) {
      state.exp_avg = zeros_like(parameter);
      state.exp_avg_sq = zeros_like(parameter);
      if (options_.amsgrad) state.max_exp_avg_sq = zeros_like(parameter);
    }
    ++state.step;
    dispatch_floating("AdamW", parameter.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* maximum = options_.amsgrad ? state.max_exp_avg_sq.template data<T>() : nullptr;
      std::get<Work::List<T>>(work_->lists)
          .push_back({parameter.data<T>(), grad.data<T>(), state.exp_avg.template data<T>(),
                      state.exp_avg_sq.template data<T>(), maximum, parameter.numel(), state.step});
    });
  }
  const kernels::cpu::AdamWScalars scalars{.lr = lr_,
                                           .beta1 = options_.beta1,
                                           .beta2 = options_.beta2,
                                           .eps = options_.eps,
                                           .weight_decay = options_.weight_decay,
                                           .maximize = options_.maximize};
  const auto run = [&]<typename T>(const Work::List<T>& list) {
    kernels::cpu::adamw<T>(std::span<const kernels::cpu::AdamWParameter<T>>(list), scalars);
  };
  run(std::get<0>(work_->lists));
  run(std::get<1>(work_->lists));
  run(std::get<2>(work_->lists));
  run(std::get<3>(work_->lists));
}

std::vector<Optimizer::Slot> AdamW::slots(size_t parameter) {
  State& state = state_[parameter];
  std::vector<Slot> result = {{"exp_avg", &state.exp_avg}, {"exp_avg_sq", &state.exp_avg_sq}};
  if (options_.amsgrad) result.push_back({"max_exp_avg_sq", &state.max_exp_avg_sq});
  return result;
}

int64_t* AdamW::step_counter(size_t parameter) { return &state_[parameter].step; }

}  // namespace lockstep::optim
