// SGD: checks its options, keeps the momentum buffers, and hands all parameters to one kernel call.
#include "kernels/sgd.h"

#include <tuple>
#include <utility>

#include "core/optim/optimizer.h"

namespace lockstep::optim {

struct SGD::Work {
  template <typename T>
  using List = std::vector<kernels::cpu::SgdParameter<T>>;
  std::tuple<List<float>, List<double>, List<Half>, List<BFloat16>> lists;  // one a dtype
};

SGD::SGD(std::vector<nn::NamedTensor> parameters, SGDOptions options)
    : Optimizer(std::move(parameters), options.lr),
      options_(options),
      momentum_(parameters_.size()),
      work_(std::make_unique<Work>()) {
  LOCKSTEP_CHECK_KIND(Usage, options.momentum >= 0.0, "SGD: momentum is ", options.momentum,
                      ", expected 0 or more");
  LOCKSTEP_CHECK_KIND(Usage, options.weight_decay >= 0.0, "SGD: weight_decay is ",
                      options.weight_decay, ", expected 0 or more");
  LOCKSTEP_CHECK_KIND(Usage,
                      !options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0),
                      "SGD: nesterov needs a momentum above 0 and a dampening of 0, got momentum ",
                      options.momentum, " and dampening ", options.dampening);
}

SGD::~SGD() = default;

void SGD::apply(const std::vector<size_t>& active) {
  std::apply([](auto&... list) { (list.clear(), ...); }, work_->lists);
  for (const size_t i : active) {
    const Tensor& parameter = parameters_[i].second;
    const Tensor grad = parameter.grad();
    const bool first = !momentum_[i].defined();
    if (first && options_.momentum != 0.0) momentum_[i] = empty_like(parameter);
    dispatch_floating("SGD", parameter.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* buffer = options_.momentum != 0.0 ? momentum_[i].data<T>() : nullptr;
      std::get<Work::List<T>>(work_->lists)
          .push_back({parameter.data<T>(), grad.data<T>(), buffer, parameter.numel(), first});
    });
  }
  const kernels::cpu::SgdScalars scalars{.lr = lr_,
                                         .momentum = options_.momentum,
                                         .dampening = options_.dampening,
                                         .weight_decay = options_.weight_decay,
                                         .nesterov = options_.nesterov,
                                         .maximize = options_.maximize};
  const auto run = [&]<typename T>(const Work::List<T>& list) {
    kernels::cpu::sgd<T>(std::span<const kernels::cpu::SgdParameter<T>>(list), scalars);
  };
  run(std::get<0>(work_->lists));
  run(std::get<1>(work_->lists));
  run(std::get<2>(work_->lists));
  run(std::get<3>(work_->lists));
}

std::vector<Optimizer::Slot> SGD::slots(size_t parameter) {
  return {{"momentum_buffer", &momentum_[parameter]}};
}

}  // namespace lockstep::optim
