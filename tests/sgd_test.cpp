// SGD: PyTorch's bits on both CPU paths, the formulas in double for every option, and sizes at the
// edges of a vector.
#include "kernels/sgd.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/autograd.h"
#include "core/optim/optimizer.h"
#include "tests/reference.h"

using namespace lockstep;
using namespace lockstep::test;
using kernels::cpu::SgdParameter;
using kernels::cpu::SgdScalars;

namespace {

using Bits = std::vector<uint32_t>;

struct Golden {
  const char* name;
  SgdScalars scalars;
  Bits avx2;
  Bits portable;
};

/// p0 = [1, -2, .5], three steps with the gradients i * [.1, -.3, .7].
const std::vector<Golden> kGolden = {
    {"plain",
     {.lr = .1},
     {0x3f70a3d7, 0xbfe8f5c2, 0x3da3d70e},
     {0x3f70a3d8, 0xbfe8f5c3, 0x3da3d70e}},
    {"dampening",
     {.lr = .1, .momentum = .9, .dampening = .5},
     {0x3f705bc0, 0xbfe889a0, 0x3d94120c},
     {0x3f705bc0, 0xbfe889a0, 0x3d941208}},
    {"nesterov",
     {.lr = .1, .momentum = .9, .weight_decay = .01, .nesterov = true},
     {0x3f58b780, 0xbfc61a8c, 0xbf059ca9},
     {0x3f58b780, 0xbfc61a8c, 0xbf059caa}},
    {"maximize",
     {.lr = .1, .maximize = true},
     {0x3f87ae14, 0xc00b851e, 0x3f6b851e},
     {0x3f87ae14, 0xc00b851e, 0x3f6b851e}}};

Bits bits_of(const std::vector<float>& values) {
  Bits bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<float> golden_gradient(int step) {
  const float i = static_cast<float>(step);
  return {i * .1f, i * -.3f, i * .7f};
}

bool has_avx2() {
  if (cpu_capability() == CpuCapability::Avx2) return true;
  MESSAGE("skipped: the AVX2 path (this CPU lacks it, or LOCKSTEP_CPU_CAPABILITY=default)");
  return false;
}

/// One parameter with its state, stepped by the kernel.
template <typename T>
struct Trained {
  std::vector<T> p;
  std::vector<T> buffer;
  bool first = true;

  void step(const std::vector<T>& grad, const SgdScalars& scalars, CpuCapability capability) {
    buffer.resize(p.size());
    const SgdParameter<T> item{p.data(), grad.data(),
                               scalars.momentum != 0.0 ? buffer.data() : nullptr,
                               static_cast<int64_t>(p.size()), first};
    kernels::cpu::sgd<T>(std::span(&item, 1), scalars, capability);
    first = false;
  }
};

std::vector<SgdScalars> all_options() {
  std::vector<SgdScalars> result;
  for (const double momentum : {0.0, 0.9}) {
    for (const double weight_decay : {0.0, 0.01}) {
      for (const bool maximize : {false, true}) {
        result.push_back(
            {.lr = .1, .momentum = momentum, .weight_decay = weight_decay, .maximize = maximize});
        if (momentum == 0.0) continue;
        result.push_back({.lr = .1,
                          .momentum = momentum,
                          .dampening = .3,
                          .weight_decay = weight_decay,
                          .maximize = maximize});
        result.push_back({.lr = .1,
                          .momentum = momentum,
                          .weight_decay = weight_decay,
                          .nesterov = true,
                          .maximize = maximize});
      }
    }
  }
  return result;
}

template <typename T>
std::vector<T> random_values(size_t n, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(draw(engine));
  return values;
}

}  // namespace

TEST_CASE("sgd gives PyTorch's bits on both paths") {
  for (const Golden& golden : kGolden) {
    CAPTURE(golden.name);
    for (const CpuCapability capability : {CpuCapability::Default, CpuCapability::Avx2}) {
      if (capability == CpuCapability::Avx2 && !has_avx2()) continue;
      Trained<float> trained{{1.0f, -2.0f, .5f}, {}};
      for (int i = 1; i <= 3; ++i) trained.step(golden_gradient(i), golden.scalars, capability);
      CAPTURE(static_cast<int>(capability));
      CHECK(bits_of(trained.p) ==
            (capability == CpuCapability::Avx2 ? golden.avx2 : golden.portable));
    }
  }
}

TEST_CASE("SGD gives PyTorch's bits on the path of this process") {
  for (const Golden& golden : kGolden) {
    CAPTURE(golden.name);
    Tensor p = Tensor::from_values(std::vector<float>{1.0f, -2.0f, .5f}, {3});
    p.requires_grad_();
    const SgdScalars& s = golden.scalars;
    optim::SGD optimizer({p}, {.lr = s.lr,
                               .momentum = s.momentum,
                               .dampening = s.dampening,
                               .weight_decay = s.weight_decay,
                               .nesterov = s.nesterov,
                               .maximize = s.maximize});
    for (int i = 1; i <= 3; ++i) {
      autograd::set_grad(p, Tensor::from_values(golden_gradient(i), {3}));
      optimizer.step();
    }
    CHECK(bits_of(p.to_vector<float>()) ==
          (cpu_capability() == CpuCapability::Avx2 ? golden.avx2 : golden.portable));
  }
}

TEST_CASE("sgd follows its formulas for every option") {
  constexpr int kSteps = 4;
  const auto n = static_cast<Eigen::Index>(300);
  for (const SgdScalars& s : all_options()) {
    Trained<double> trained{random_values<double>(300, 1), {}};
    Eigen::VectorXd p = Eigen::Map<Eigen::VectorXd>(trained.p.data(), n);
    Eigen::VectorXd buffer;
    for (int step = 0; step < kSteps; ++step) {
      const auto grad = random_values<double>(300, 10 + static_cast<unsigned>(step));
      Eigen::VectorXd g = Eigen::Map<const Eigen::VectorXd>(grad.data(), n);
      if (s.maximize) g = -g;
      g += s.weight_decay * p;
      if (s.momentum != 0.0) {
        buffer = step == 0 ? g : Eigen::VectorXd(s.momentum * buffer + (1 - s.dampening) * g);
        g = s.nesterov ? Eigen::VectorXd(g + s.momentum * buffer) : buffer;
      }
      p -= s.lr * g;
      trained.step(grad, s, cpu_capability());
    }
    // About ten roundings a step of numbers below 8 (a momentum of .9 adds at most four gradients).
    const double bound = kSteps * 10 * 8 * epsilon(DType::Float64);
    const Eigen::VectorXd actual = Eigen::Map<Eigen::VectorXd>(trained.p.data(), n);
    CHECK((actual - p).cwiseAbs().maxCoeff() <= bound);
  }
}

TEST_CASE("sgd: an element's bits depend on neither its position nor the number of elements") {
  for (const CpuCapability capability : {CpuCapability::Default, CpuCapability::Avx2}) {
    if (capability == CpuCapability::Avx2 && !has_avx2()) continue;
    for (const SgdScalars& s : all_options()) {
      for (const size_t n : {size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{255}, size_t{256},
                             size_t{257}, size_t{600}}) {
        Trained<float> whole{random_values<float>(n, 2), {}};
        std::vector<Trained<float>> single;
        for (const float value : whole.p) single.push_back({{value}, {}});
        for (unsigned step = 0; step < 2; ++step) {
          const auto grad = random_values<float>(n, 20 + step);
          whole.step(grad, s, capability);
          for (size_t i = 0; i < n; ++i) single[i].step({grad[i]}, s, capability);
        }
        for (size_t i = 0; i < n; ++i) REQUIRE(whole.p[i] == single[i].p[0]);
      }
    }
  }
}

TEST_CASE("sgd: 16-bit parameters are computed in fp32 and rounded once") {
  const SgdScalars s{.lr = .1, .weight_decay = .01};
  const auto wide_p = random_values<float>(40, 3);
  const auto wide_g = random_values<float>(40, 4);
  Trained<BFloat16> trained;
  std::vector<BFloat16> grad;
  for (size_t i = 0; i < wide_p.size(); ++i) {
    trained.p.push_back(BFloat16(wide_p[i]));
    grad.push_back(BFloat16(wide_g[i]));
  }
  const std::vector<BFloat16> before = trained.p;
  trained.step(grad, s, cpu_capability());
  for (size_t i = 0; i < before.size(); ++i) {
    const double p = static_cast<double>(before[i]);
    const double expected = p - s.lr * (static_cast<double>(grad[i]) + s.weight_decay * p);
    const double bound = epsilon(DType::BFloat16) / 2 * std::abs(expected) + 4 * 0x1p-23;
    CHECK(std::abs(static_cast<double>(trained.p[i]) - expected) <= bound);
  }
}

TEST_CASE("SGD refuses options outside their range") {
  const Tensor p = zeros({2}).requires_grad_();
  const auto make = [&](optim::SGDOptions options) {
    return [=] { optim::SGD optimizer({p}, options); };
  };
  check_error(make({.lr = -1.0}), {"lr is -1"});
  check_error(make({.momentum = -.5}), {"SGD", "momentum is -0.5"});
  check_error(make({.weight_decay = -1}), {"SGD", "weight_decay is -1"});
  check_error(make({.nesterov = true}), {"nesterov", "momentum 0"});
  check_error(make({.momentum = .9, .dampening = .1, .nesterov = true}), {"dampening 0.1"});
}
