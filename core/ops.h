// Every differentiable operation: the one list. Each has core/ops/<stem>.cpp (checks, tape) and
// kernels/<stem>.h (pointers), and a gradcheck and an Eigen closed form in tests/<stem>_test.cpp.
// Unless said otherwise: floating dtypes, one dtype and device for all inputs, output of the same
// dtype; 16-bit types are computed in fp32 and rounded once. Errors name the operation, what was
// given and what was expected.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace lockstep::ops {

/// output = input * weight^T + bias
///   grad_input = grad_output * weight; grad_weight = grad_output^T * input; grad_bias = sum_n
///   grad_output
/// input [..., in]; weight [out, in]; bias [out] or undefined; returns [..., out]
/// source: torch.nn.functional.linear
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor());

/// relu(linear(input, weight, bias)) with bias and activation in one pass over the product; the
/// same bits as the two operations one after the other.
Tensor linear_relu(const Tensor& input, const Tensor& weight, const Tensor& bias);

/// max(input, 0); the gradient at 0 is 0, NaN stays NaN. source: torch.relu
Tensor relu(const Tensor& input);

/// input * Phi(input) = input * (1 + erf(input / sqrt 2)) / 2. source: torch.nn.functional.gelu
Tensor gelu(const Tensor& input);

/// a + b, equal shapes. source: torch.add
Tensor add(const Tensor& a, const Tensor& b);

/// input * factor. source: torch.mul with a Python number
Tensor mul(const Tensor& input, double factor);

/// Sum of all elements, shape []. source: torch.sum
Tensor sum(const Tensor& input);

/// sum / numel, shape []; NaN for an empty tensor. source: torch.mean
Tensor mean(const Tensor& input);

/// The same elements under another shape of as many elements, shared, not copied; any dtype.
/// (Tensor::view also takes an extent of -1.) source: torch.Tensor.view
Tensor view(const Tensor& input, const Shape& shape);

/// softmax over the last dimension: exp(x - max) / sum exp(x - max). source: torch.softmax(dim=-1)
Tensor softmax(const Tensor& input);

/// x - max - log sum exp(x - max) over the last dimension. source: torch.log_softmax(dim=-1)
Tensor log_softmax(const Tensor& input);

enum class Reduction : uint8_t { None, Mean, Sum };

struct CrossEntropyOptions {
  Tensor weight;  ///< [C] rescaling weight per class, same dtype as the loss; or undefined
  int64_t ignore_index = -100;  ///< targets equal to it contribute nothing
  Reduction reduction = Reduction::Mean;
  double label_smoothing = 0.0;  ///< in [0, 1]
};

/// Cross-entropy of raw scores against class indices.
///   logp = log_softmax(logits); l_n = -(1-e) w[t_n] logp[n, t_n] - e/C sum_c w_c logp[n, c]
///   Mean divides the first part by sum_n w[t_n] over n not ignored (without weights: their
///   number), the smoothing part by the same; all ignored or N = 0 gives NaN. Sum adds; None gives
///   [N].
/// logits [N, C]; targets [N] Int64 in [0, C) or ignore_index
/// returns [] (None: [N]) Float32 (Float64 for Float64 logits), computed in at least fp32
/// throws Error(BadData) on a target out of range (sample and value named), Error on shape, dtype,
/// device source: torch.nn.functional.cross_entropy
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});

/// Training: input * mask / (1-p) with mask ~ Bernoulli(1-p) from the default generator (PyTorch's
/// draws of a build without MKL: one 53-bit uniform an element); p = 0 or not training: input
/// itself; p = 1: zeros; neither draws. p in [0, 1]. source: torch.nn.functional.dropout
Tensor dropout(const Tensor& input, double p, bool training);

/// (x - mean) / sqrt(var + eps) * weight + bias over the last dimension (biased variance).
/// input [..., D]; weight, bias [D]. source: torch.nn.functional.layer_norm
Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

/// output[n] = weight[indices[n]]; repeated indices add up in grad_weight, in the order of n.
/// indices any shape Int64 in [0, V); weight [V, D]; returns indices.shape + [D]
/// throws Error(BadData) on an index out of range (position and value named)
/// source: torch.nn.functional.embedding
Tensor embedding(const Tensor& indices, const Tensor& weight);

}  // namespace lockstep::ops

namespace lockstep {
inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator*(const Tensor& input, double factor) { return ops::mul(input, factor); }
inline Tensor operator*(double factor, const Tensor& input) { return ops::mul(input, factor); }
inline Tensor operator/(const Tensor& input, double divisor) {
  return ops::mul(input, 1.0 / divisor);
}
}  // namespace lockstep
