// The tree of modules: registration, walks, state, moves.
#include "core/nn/module.h"

#include <algorithm>
#include <sstream>

#include "core/autograd.h"

namespace lockstep::nn {
namespace {

bool contains(const std::vector<NamedTensor>& list, const Tensor& tensor) {
  return std::any_of(list.begin(), list.end(),
                     [&](const NamedTensor& entry) { return entry.second.is_same(tensor); });
}

const Tensor* find(const std::vector<NamedTensor>& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const NamedTensor& entry) { return entry.first == name; });
  return found == list.end() ? nullptr : &found->second;
}

void move_to(Tensor& tensor, const Tensor& moved) {
  if (!moved.is_same(tensor)) tensor.set_data(moved);
}

}  // namespace

void Module::collect(const std::string& prefix, Kind kind, std::vector<NamedTensor>& out) const {
  const auto take = [&](const std::vector<NamedTensor>& own) {
    for (const auto& [name, tensor] : own) {
      // A shared tensor is one parameter, but has every one of its names in a saved state.
      if (kind == Kind::State || !contains(out, tensor)) out.emplace_back(prefix + name, tensor);
    }
  };
  if (kind != Kind::Buffers) take(parameters_);
  if (kind != Kind::Parameters) take(buffers_);
  for (const auto& [name, child] : children_) child->collect(prefix + name + ".", kind, out);
}

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> result;
  collect("", Kind::Parameters, result);
  return result;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (auto& [name, tensor] : named_parameters()) result.push_back(tensor);
  return result;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> result;
  collect("", Kind::Buffers, result);
  return result;
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> result;
  collect("", Kind::State, result);
  return result;
}

void Module::load_state_dict(const std::vector<NamedTensor>& state) {
  const std::vector<NamedTensor> own = state_dict();
  std::ostringstream problems;
  for (const auto& [name, tensor] : own) {
    const Tensor* given = find(state, name);
    if (given == nullptr) {
      problems << "; missing " << name << " " << tensor.shape();
    } else if (!(given->shape() == tensor.shape())) {
      problems << "; " << name << " is " << given->shape() << ", expected " << tensor.shape();
    }
  }
  for (const auto& [name, tensor] : state) {
    if (find(own, name) == nullptr) {
      problems << "; unexpected " << name << " " << tensor.shape();
    }
  }
  const std::string found = problems.str();
  LOCKSTEP_CHECK_KIND(BadData, found.empty(), "load_state_dict: the state does not fit the module",
                      found, "; build the module with the options that it was saved with");
  NoGradGuard guard;
  for (const auto& [name, tensor] : own) Tensor(tensor).copy_(*find(state, name));
}

void Module::train(bool mode) {
  training_ = mode;
  for (const auto& [name, child] : children_) child->train(mode);
}

void Module::to(Device device) {
  for (auto& [name, tensor] : parameters_) move_to(tensor, tensor.to(device));
  for (auto& [name, tensor] : buffers_) move_to(tensor, tensor.to(device));
  for (const auto& [name, child] : children_) child->to(device);
}

void Module::to(DType dtype) {
  LOCKSTEP_CHECK(is_floating(dtype), "Module::to: expected a floating dtype, got ", dtype);
  for (auto& [name, tensor] : parameters_) move_to(tensor, tensor.to(dtype));
  for (auto& [name, tensor] : buffers_) {
    if (is_floating(tensor.dtype())) move_to(tensor, tensor.to(dtype));
  }
  for (const auto& [name, child] : children_) child->to(dtype);
}

void Module::zero_grad() {
  for (const auto& [name, tensor] : parameters_) {
    if (tensor.leaf() != nullptr) autograd::zero_grad(tensor);  // a frozen one has no gradient
  }
  for (const auto& [name, child] : children_) child->zero_grad();
}

void Module::check_name(const char* operation, const std::string& name) const {
  LOCKSTEP_CHECK(!name.empty() && name.find('.') == std::string::npos, operation, ": the name \"",
                 name, "\" must be non-empty and without dots");
  const bool taken = find(parameters_, name) != nullptr || find(buffers_, name) != nullptr ||
                     std::any_of(children_.begin(), children_.end(),
                                 [&](const auto& child) { return child.first == name; });
  LOCKSTEP_CHECK(!taken, operation, ": the module already has a member \"", name,
                 "\"; choose another name");
}

Tensor Module::register_parameter(std::string name, Tensor parameter) {
  check_name("register_parameter", name);
  LOCKSTEP_CHECK(parameter.defined(), "register_parameter: ", name, " is undefined");
  parameter.requires_grad_();
  parameters_.emplace_back(std::move(name), parameter);
  return parameter;
}

Tensor Module::register_buffer(std::string name, Tensor buffer) {
  check_name("register_buffer", name);
  LOCKSTEP_CHECK(buffer.defined(), "register_buffer: ", name, " is undefined");
  buffers_.emplace_back(std::move(name), buffer);
  return buffer;
}

void Module::register_module(std::string name, std::shared_ptr<Module> module) {
  check_name("register_module", name);
  LOCKSTEP_CHECK(module != nullptr, "register_module: ", name, " is null");
  children_.emplace_back(std::move(name), std::move(module));
}

}  // namespace lockstep::nn
