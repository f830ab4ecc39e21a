// An optimizer's state as named tensors, for checkpoints, and back.
#include <map>
#include <set>
#include <string>

#include "core/optim/optimizer.h"

namespace lockstep::optim {
namespace {

Tensor scalar(double value) { return full({}, value, DType::Float64); }

Tensor counter(int64_t value) { return Tensor::from_values(std::vector<int64_t>{value}, {}); }

void check_scalar(const std::string& name, const Tensor& tensor, DType dtype) {
  LOCKSTEP_CHECK_KIND(BadData, tensor.dtype() == dtype && tensor.numel() == 1,
                      "load_state_tensors: ", name, " is ", tensor.dtype(), " ", tensor.shape(),
                      ", expected one ", dtype);
}

/// Undefined when there is none of this name.
Tensor find(const std::map<std::string, Tensor>& state, const std::string& name) {
  const auto found = state.find(name);
  return found == state.end() ? Tensor() : found->second;
}

}  // namespace

std::vector<nn::NamedTensor> Optimizer::state_tensors() {
  std::vector<nn::NamedTensor> result = {
      {"lr", scalar(lr_)}, {"momentum", scalar(momentum())}, {"num_steps", counter(num_steps_)}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    bool stepped = false;
    for (const Slot& slot : slots(i)) {
      if (!slot.tensor->defined()) continue;
      result.emplace_back(name_of(i) + "." + slot.name, *slot.tensor);
      stepped = true;
    }
    const int64_t* steps = step_counter(i);
    if (stepped && steps != nullptr) result.emplace_back(name_of(i) + ".step", counter(*steps));
  }
  return result;
}

// Everything is looked up and checked before anything is written.
void Optimizer::check_state(const std::map<std::string, Tensor>& given) {
  std::set<std::string> known = {"lr", "momentum", "num_steps"};
  for (const std::string& name : known) {
    LOCKSTEP_CHECK_KIND(BadData, given.count(name) == 1, "load_state_tensors: ", name,
                        " is missing");
    check_scalar(name, given.at(name), name == "num_steps" ? DType::Int64 : DType::Float64);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    size_t present = 0;
    const std::vector<Slot> expected = slots(i);
    for (const Slot& slot : expected) {
      const std::string name = name_of(i) + "." + slot.name;
      known.insert(name);
      const Tensor tensor = find(given, name);
      if (!tensor.defined()) continue;
      ++present;
      LOCKSTEP_CHECK_KIND(
          BadData, tensor.shape() == parameter.shape() && tensor.dtype() == parameter.dtype(),
          "load_state_tensors: ", name, " is ", tensor.dtype(), " ", tensor.shape(), ", expected ",
          parameter.dtype(), " ", parameter.shape());
    }
    bool complete = present == 0 || present == expected.size();
    if (step_counter(i) != nullptr) {
      const std::string name = name_of(i) + ".step";
      known.insert(name);
      const Tensor steps = find(given, name);
      if (steps.defined()) check_scalar(name, steps, DType::Int64);
      complete = complete && steps.defined() == (present > 0);
    }
    LOCKSTEP_CHECK_KIND(BadData, complete, "load_state_tensors: the state of ", name_of(i),
                        " is incomplete; was it saved with other options?");
  }
  for (const auto& [name, tensor] : given) {
    LOCKSTEP_CHECK_KIND(BadData, known.count(name) == 1, "load_state_tensors: unexpected ", name,
                        "; was it saved by another optimizer or another model?");
  }
}

void Optimizer::load_state_tensors(const std::vector<nn::NamedTensor>& state) {
  const std::map<std::string, Tensor> given(state.begin(), state.end());
  check_state(given);
  lr_ = given.at("lr").item();
  set_momentum(given.at("momentum").item());
  num_steps_ = given.at("num_steps").data<int64_t>()[0];
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Device device = parameters_[i].second.device();
    for (const Slot& slot : slots(i)) {
      const Tensor tensor = find(given, name_of(i) + "." + slot.name);
      *slot.tensor = tensor.defined() ? tensor.to(device).clone() : Tensor();
    }
    if (int64_t* steps = step_counter(i)) {
      const Tensor tensor = find(given, name_of(i) + ".step");
      *steps = tensor.defined() ? tensor.data<int64_t>()[0] : 0;
    }
  }
}

}  // namespace lockstep::optim
