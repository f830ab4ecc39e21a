// Is a backward the derivative of its forward? Central differences in double on every element of
// every input, against the gradient of sum(G * f(inputs)) for a random G.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/autograd.h"
#include "tests/reference.h"

namespace lockstep::test {

// Note [Tolerance of gradcheck]
// With the step h = cbrt(eps) * max(1, |x|), the difference quotient is off by about eps / h * S
// from rounding, where S = sum |G * f| bounds the terms of the sum, and by h^2 / 6 times a third
// derivative from truncation. Both are eps^(2/3) (4e-11) times a magnitude; kSlack covers the third
// derivatives (at most about 100 for the operations here) and the operations' own roundings.
inline constexpr double kSlack = 32.0;

/// Checks `f(inputs)` (one floating output) with respect to each of the Float64 `inputs`.
/// f must be smooth within a step of the inputs, and deterministic.
template <typename Function>
void gradcheck(Function&& f, std::vector<Tensor> inputs, unsigned seed = 1) {
  for (Tensor& input : inputs) {
    input = input.clone().requires_grad_();  // the caller's stay
    // What is in the memory of an undefined gradient must not show through.
    autograd::set_grad_memory(input, full(input.shape(), std::nan(""), DType::Float64));
  }
  const Tensor output = f(inputs);
  const Tensor weights = random_tensor(output.shape(), DType::Float64, seed);
  output.backward(weights);

  const auto loss = [&](double* magnitude) {
    NoGradGuard guard;
    const std::vector<double> values = f(inputs).template to_vector<double>();
    const std::vector<double> g = weights.to_vector<double>();
    double sum = 0.0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += g[i] * values[i];
      if (magnitude != nullptr) *magnitude += std::abs(g[i] * values[i]);
    }
    return sum;
  };
  double magnitude = 1.0;
  loss(&magnitude);
  const double eps = std::numeric_limits<double>::epsilon();
  for (size_t k = 0; k < inputs.size(); ++k) {
    REQUIRE(inputs[k].grad().defined());
    double* const x = inputs[k].data<double>();
    const std::vector<double> grad = inputs[k].grad().to_vector<double>();
    for (size_t i = 0; i < grad.size(); ++i) {
      const double kept = x[i];
      const double step = std::cbrt(eps) * std::max(1.0, std::abs(kept));
      const double above = x[i] = kept + step;
      const double up = loss(nullptr);
      const double below = x[i] = kept - step;
      const double down = loss(nullptr);
      x[i] = kept;
      const double numeric = (up - down) / (above - below);
      const double tolerance = kSlack * std::pow(eps, 2.0 / 3.0) * (magnitude + std::abs(numeric));
      CAPTURE(k);
      CAPTURE(i);
      CAPTURE(seed);
      CAPTURE(numeric);
      CAPTURE(grad[i]);
      CHECK(std::abs(grad[i] - numeric) <= tolerance);
    }
  }
}

}  // namespace lockstep::test
