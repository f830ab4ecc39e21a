// Initial values. All of these write in place, so they take no part in autograd.
#include "core/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/autograd.h"
#include "kernels/erfinv.h"

namespace lockstep::nn::init {
namespace {

/// Elements of one [kernel...] of a weight [out, in, kernel...].
int64_t receptive_field(const Tensor& weight) {
  LOCKSTEP_CHECK(weight.dim() >= 2, "init: a weight of shape ", weight.shape(),
                 " has no fan; expected [out, in, ...]");
  int64_t field = 1;
  for (int i = 2; i < weight.dim(); ++i) field *= weight.size(i);
  return field;
}

double kaiming_std(const Tensor& weight, double negative_slope) {
  return leaky_relu_gain(negative_slope) / std::sqrt(static_cast<double>(fan_in(weight)));
}

double xavier_std(const Tensor& weight, double gain) {
  return gain * std::sqrt(2.0 / static_cast<double>(fan_in(weight) + fan_out(weight)));
}

/// The standard normal distribution function.
double normal_cdf(double x) { return (1.0 + std::erf(x / std::numbers::sqrt2)) / 2.0; }

}  // namespace

int64_t fan_in(const Tensor& weight) { return receptive_field(weight) * weight.size(1); }

int64_t fan_out(const Tensor& weight) { return receptive_field(weight) * weight.size(0); }

double leaky_relu_gain(double negative_slope) {
  return std::sqrt(2.0 / (1.0 + negative_slope * negative_slope));
}

void kaiming_uniform_(Tensor& weight, double negative_slope, Generator* generator) {
  NoGradGuard guard;
  const double bound = std::sqrt(3.0) * kaiming_std(weight, negative_slope);
  if (weight.numel() > 0) uniform_(weight, -bound, bound, generator);
}

void kaiming_normal_(Tensor& weight, double negative_slope, Generator* generator) {
  NoGradGuard guard;
  const double std = kaiming_std(weight, negative_slope);
  if (weight.numel() > 0) normal_(weight, 0.0, std, generator);
}

void xavier_uniform_(Tensor& weight, double gain, Generator* generator) {
  NoGradGuard guard;
  const double bound = std::sqrt(3.0) * xavier_std(weight, gain);
  if (weight.numel() > 0) uniform_(weight, -bound, bound, generator);
}

void xavier_normal_(Tensor& weight, double gain, Generator* generator) {
  NoGradGuard guard;
  const double std = xavier_std(weight, gain);
  if (weight.numel() > 0) normal_(weight, 0.0, std, generator);
}

void trunc_normal_(Tensor& weight, double mean, double std, double a, double b,
                   Generator* generator) {
  LOCKSTEP_CHECK_KIND(Usage, a < b && std > 0.0, "trunc_normal_: std ", std, ", bounds ", a, " to ",
                      b, ", expected std > 0 and a < b");
  LOCKSTEP_CHECK(!is_reduced_floating(weight.dtype()), "trunc_normal_: the weight is ",
                 weight.dtype(), ", expected Float32 or Float64");
  NoGradGuard guard;
  const double low = 2.0 * normal_cdf((a - mean) / std) - 1.0;
  const double high = 2.0 * normal_cdf((b - mean) / std) - 1.0;
  uniform_(weight, low, high, generator);
  Tensor host = weight.to(kCPU);
  dispatch_floating("trunc_normal_", weight.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) >= sizeof(float)) {
      T* values = host.data<T>();
      kernels::cpu::erfinv<T>(values, host.numel());
      const T scale = static_cast<T>(std * std::numbers::sqrt2);
      for (int64_t i = 0; i < host.numel(); ++i) {
        const T value = values[i] * scale + static_cast<T>(mean);
        values[i] = std::clamp(value, static_cast<T>(a), static_cast<T>(b));
      }
    }
  });
  if (!weight.device().is_cpu()) weight.copy_(host);
}

}  // namespace lockstep::nn::init
