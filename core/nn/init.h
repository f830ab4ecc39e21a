// Initial values of weights: torch.nn.init. Bounds are computed in double in PyTorch's order of
// operations, so that the same seed gives the same bits.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

namespace lockstep::nn::init {

/// The number of inputs, and of outputs, of one unit of a weight [out, in, kernel...]:
/// in * kernel elements, and out * kernel elements. Throws Error below two dimensions.
int64_t fan_in(const Tensor& weight);
int64_t fan_out(const Tensor& weight);

/// The gain of a leaky ReLU with this negative slope: sqrt(2 / (1 + slope^2)); 0 is plain ReLU.
double leaky_relu_gain(double negative_slope);

/// U(-bound, bound), bound = sqrt(3) * gain(negative_slope) / sqrt(fan_in).
/// source: torch.nn.init.kaiming_uniform_
void kaiming_uniform_(Tensor& weight, double negative_slope = 0.0, Generator* generator = nullptr);

/// N(0, std^2), std = gain(negative_slope) / sqrt(fan_in). source: torch.nn.init.kaiming_normal_
void kaiming_normal_(Tensor& weight, double negative_slope = 0.0, Generator* generator = nullptr);

/// U(-bound, bound), bound = sqrt(3) * std, std = gain * sqrt(2 / (fan_in + fan_out)).
/// source: torch.nn.init.xavier_uniform_
void xavier_uniform_(Tensor& weight, double gain = 1.0, Generator* generator = nullptr);

/// N(0, std^2) with the std above. source: torch.nn.init.xavier_normal_
void xavier_normal_(Tensor& weight, double gain = 1.0, Generator* generator = nullptr);

/// N(mean, std^2) without what lies outside [a, b]: the inverse of the distribution function, at
/// uniforms between its values at a and b. Float32 and Float64.
/// throws Error unless a < b and std > 0. source: torch.nn.init.trunc_normal_
void trunc_normal_(Tensor& weight, double mean = 0.0, double std = 1.0, double a = -2.0,
                   double b = 2.0, Generator* generator = nullptr);

}  // namespace lockstep::nn::init
