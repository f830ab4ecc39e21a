// Small models and steps that the tests of DistributedDataParallel share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/nn/layers.h"
#include "core/ops.h"
#include "dist/distributed_data_parallel.h"
#include "tests/ranks.h"

namespace lockstep::test {

inline constexpr double kOneParameterBuckets = 1e-6;  // MiB: every parameter fills a bucket

/// Layers a, b, c, registered in this order and used in the order c, a, b.
class Shuffled : public nn::Module {
 public:
  Shuffled() {
    register_module("a", a_);
    register_module("b", b_);
    register_module("c", c_);
  }
  Tensor forward(const Tensor& input) override {
    Tensor hidden = use_c ? (*c_)(input) : input;
    return (*b_)((*a_)(hidden));
  }
  bool use_c = true;

 private:
  std::shared_ptr<nn::Linear> a_ = std::make_shared<nn::Linear>(3, 3);
  std::shared_ptr<nn::Linear> b_ = std::make_shared<nn::Linear>(3, 3);
  std::shared_ptr<nn::Linear> c_ = std::make_shared<nn::Linear>(3, 3);
};

inline nn::Sequential three_layers() {
  return nn::Sequential{nn::Linear(4, 3), nn::Linear(3, 3), nn::Linear(3, 2)};
}

inline void step(dist::DistributedDataParallel& ddp, const Tensor& input) {
  ops::sum(ddp(input)).backward();
}

inline std::vector<float> gradient(const Tensor& parameter) {
  return parameter.grad().to_vector<float>();
}

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Linear with one buffer, which forward adds to the output.
class Buffered : public nn::Module {
 public:
  explicit Buffered(float value) : buffer(register_buffer("offset", full({1, 2}, value))) {
    register_module("linear", linear_);
  }
  Tensor forward(const Tensor& input) override { return (*linear_)(input) + buffer; }
  Tensor buffer;

 private:
  std::shared_ptr<nn::Linear> linear_ = std::make_shared<nn::Linear>(2, 2);
};

/// The elements of a tensor as bytes, sharing them.
inline Tensor bytes_of(const Tensor& tensor) {
  return Tensor::from_storage(tensor.storage(),
                              tensor.storage_offset() * element_size(tensor.dtype()),
                              {tensor.nbytes()}, DType::UInt8);
}

/// Collective: true (on every rank) if parameters, gradients and buffers are the same bytes on all
/// ranks.
inline bool replicas_equal(dist::ProcessGroup& group, const nn::Module& module) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : module.state_dict()) {
    tensors.push_back(tensor);
    if (tensor.leaf() != nullptr && tensor.grad().defined()) tensors.push_back(tensor.grad());
  }
  bool equal = true;
  for (const Tensor& tensor : tensors) {
    const Tensor mine = bytes_of(tensor).clone();
    const Tensor all = empty({group.world_size() * mine.numel()}, DType::UInt8);
    group.all_gather(all, mine);
    const std::vector<uint8_t> bytes = all.to_vector<uint8_t>();
    const auto n = static_cast<size_t>(mine.numel());
    for (size_t i = n; i < bytes.size(); ++i) equal = equal && bytes[i] == bytes[i - n];
  }
  return equal;
}

/// run_ranks as threads, then as processes: the same function, both forms.
inline void run_both_forms(int world_size, const RankFunction& function) {
  run_ranks(world_size, function);
  run_rank_processes(world_size, function);
}

/// The group as DistributedDataParallel takes it; the caller keeps it alive.
inline std::shared_ptr<dist::ProcessGroup> borrow(dist::ProcessGroup& group) {
  return {std::shared_ptr<void>(), &group};
}

}  // namespace lockstep::test
