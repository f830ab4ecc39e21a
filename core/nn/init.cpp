// Initial values. All of these write in place, so they take no part in autograd.
#include "core/nn/init.h"

#include <cmath>

#include "core/autograd.h"

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

}  // namespace lockstep::nn::init
