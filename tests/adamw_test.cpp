// AdamW: PyTorch's bits, the formulas in double for every option, and sizes at the edges.
#include "kernels/adamw.h"

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
using kernels::cpu::AdamWParameter;
using kernels::cpu::AdamWScalars;

namespace {

using Bits = std::vector<uint32_t>;

/// p0 = [1, -2, .5], three steps with the gradients i * [.1, -.3, .7], lr .01; the same bits on
/// both paths, and with amsgrad.
const Bits kGolden = {0x3f7870cb, 0xbffc2e92, 0x3ef0f541};

Bits bits_of(const std::vector<float>& values) {
  Bits bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<float> golden_gradient(int step) {
  const float i = static_cast<float>(step);
  return {i * .1f, i * -.3f, i * .7f};
}

std::vector<CpuCapability> capabilities() {
  if (cpu_capability() == CpuCapability::Avx2) {
    return {CpuCapability::Default, CpuCapability::Avx2};
  }
  MESSAGE("skipped: the AVX2 path (this CPU lacks it, or LOCKSTEP_CPU_CAPABILITY=default)");
  return {CpuCapability::Default};
}

template <typename T>
struct Trained {
  std::vector<T> p;
  bool amsgrad = false;
  std::vector<T> m{};
  std::vector<T> v{};
  std::vector<T> u{};
  int64_t steps = 0;

  void step(const std::vector<T>& grad, const AdamWScalars& scalars, CpuCapability capability) {
    for (std::vector<T>* state : {&m, &v, &u}) state->resize(p.size());
    const AdamWParameter<T> item{p.data(),
                                 grad.data(),
                                 m.data(),
                                 v.data(),
                                 amsgrad ? u.data() : nullptr,
                                 static_cast<int64_t>(p.size()),
                                 ++steps};
    kernels::cpu::adamw<T>(std::span(&item, 1), scalars, capability);
  }
};

template <typename T>
std::vector<T> random_values(size_t n, unsigned seed, double scale = 1.0) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(-scale, scale);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(draw(engine));
  return values;
}

std::vector<AdamWScalars> all_options() {
  return {{.lr = .01},
          {.lr = .01, .weight_decay = 0.0},
          {.lr = .1, .beta1 = 0.0, .beta2 = 0.5, .eps = 1e-3},
          {.lr = .01, .beta1 = .3, .maximize = true}};
}

}  // namespace

TEST_CASE("adamw gives PyTorch's bits on both paths, with and without amsgrad") {
  for (const CpuCapability capability : capabilities()) {
    for (const bool amsgrad : {false, true}) {
      Trained<float> trained{{1.0f, -2.0f, .5f}, amsgrad};
      for (int i = 1; i <= 3; ++i) trained.step(golden_gradient(i), {.lr = .01}, capability);
      CAPTURE(static_cast<int>(capability));
      CAPTURE(amsgrad);
      CHECK(bits_of(trained.p) == kGolden);
    }
  }
}

TEST_CASE("AdamW gives PyTorch's bits") {
  for (const bool amsgrad : {false, true}) {
    Tensor p = Tensor::from_values(std::vector<float>{1.0f, -2.0f, .5f}, {3});
    p.requires_grad_();
    optim::AdamW optimizer({p}, {.lr = .01, .amsgrad = amsgrad});
    for (int i = 1; i <= 3; ++i) {
      autograd::set_grad(p, Tensor::from_values(golden_gradient(i), {3}));
      optimizer.step();
    }
    CHECK(bits_of(p.to_vector<float>()) == kGolden);
  }
}

TEST_CASE("adamw follows its formulas for every option") {
  constexpr int kSteps = 5;
  using Array = Eigen::ArrayXd;
  for (const CpuCapability capability : capabilities()) {
    for (const bool amsgrad : {false, true}) {
      for (const AdamWScalars& s : all_options()) {
        Trained<double> trained{random_values<double>(300, 1), amsgrad};
        Array p = Eigen::Map<Array>(trained.p.data(), 300);
        Array m = Array::Zero(300);
        Array v = Array::Zero(300);
        Array u = Array::Zero(300);
        for (int step = 1; step <= kSteps; ++step) {
          // Shrinking gradients, so that amsgrad's maximum matters.
          const auto grad =
              random_values<double>(300, 10 + static_cast<unsigned>(step), 1.0 / step);
          Array g = Eigen::Map<const Array>(grad.data(), 300);
          if (s.maximize) g = -g;
          p *= 1 - s.lr * s.weight_decay;
          m = s.beta1 * m + (1 - s.beta1) * g;
          v = s.beta2 * v + (1 - s.beta2) * g.square();
          u = amsgrad ? Array(u.max(v)) : v;
          const Array denominator = (u / (1 - std::pow(s.beta2, step))).sqrt() + s.eps;
          p -= s.lr / (1 - std::pow(s.beta1, step)) * m / denominator;
          trained.step(grad, s, capability);
        }
        // A step is at most 10 lr (m over sqrt(u), both of the same gradients); each takes about 20
        // roundings, and 1 - beta^t cancels: up to 1 / (1 - beta2) of relative error.
        const double bound =
            kSteps * epsilon(DType::Float64) * (2 + 10 * s.lr * (20 + 1 / (1 - s.beta2)));
        const Array actual = Eigen::Map<Array>(trained.p.data(), 300);
        CHECK((actual - p).abs().maxCoeff() <= bound);
      }
    }
  }
}

TEST_CASE("adamw: an element's bits depend on neither its position nor the number of elements") {
  for (const CpuCapability capability : capabilities()) {
    for (const AdamWScalars& s : all_options()) {
      for (const size_t n : {size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{255}, size_t{256},
                             size_t{257}, size_t{600}}) {
        Trained<float> whole{random_values<float>(n, 2), true};
        std::vector<Trained<float>> single;
        for (const float value : whole.p) single.push_back({{value}, true});
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

TEST_CASE("adamw: a NaN gradient is not hidden by amsgrad's maximum") {
  for (const CpuCapability capability : capabilities()) {
    Trained<float> trained{{1.0f, 1.0f}, true};
    trained.step({NAN, 1.0f}, {}, capability);
    trained.step({1.0f, 1.0f}, {}, capability);
    CHECK(std::isnan(trained.u[0]));
    CHECK(std::isnan(trained.p[0]));
    CHECK(std::isfinite(trained.p[1]));
  }
}

TEST_CASE("AdamW corrects the bias of each parameter by its own number of steps") {
  Tensor early = ones({1}).requires_grad_();
  Tensor late = ones({1}).requires_grad_();
  optim::AdamW optimizer({early, late}, {.lr = .1, .weight_decay = 0.0});
  autograd::set_grad(early, ones({1}));
  optimizer.step();
  CHECK(late.item() == 1.0);
  autograd::set_grad(late, ones({1}));
  autograd::zero_grad(early);
  const double after_one = early.item();
  optimizer.step();
  CHECK(late.item() == after_one);
  CHECK(early.item() == after_one);
}

TEST_CASE("AdamW refuses options outside their range") {
  const Tensor p = zeros({2}).requires_grad_();
  const auto make = [&](optim::AdamWOptions options) {
    return [=] { optim::AdamW optimizer({p}, options); };
  };
  check_error(make({.lr = -1.0}), {"lr is -1"});
  check_error(make({.beta1 = 1.0}), {"AdamW", "beta1 is 1"});
  check_error(make({.beta2 = -.1}), {"AdamW", "beta2 is -0.1"});
  check_error(make({.eps = -1}), {"AdamW", "eps is -1"});
  check_error(make({.weight_decay = -1}), {"AdamW", "weight_decay is -1"});
}
