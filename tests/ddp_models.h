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

namespace lockstep::tests {

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

}  // namespace lockstep::tests
