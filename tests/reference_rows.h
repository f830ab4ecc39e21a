// Closed forms in Eigen double of what works row by row: softmax, log_softmax, cross-entropy, layer
// normalisation; with the magnitudes that bound the rounding errors of their fp32 counterparts.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/reference.h"

namespace lockstep::test {

inline Matrix log_softmax_reference(const Matrix& x) {
  const Matrix z = x.colwise() - x.rowwise().maxCoeff();
  const Eigen::VectorXd log_sum = z.array().exp().rowwise().sum().log();
  return z.colwise() - log_sum;
}

/// max - min of each row, plus one: an fp32 x - max is off by up to eps / 2 times the spread, the
/// exponential and its sum by a few eps.
inline Matrix row_spread(const Matrix& x) {
  const Eigen::VectorXd spread = x.rowwise().maxCoeff() - x.rowwise().minCoeff();
  return (Matrix::Ones(x.rows(), x.cols()).array().colwise() * (spread.array() + 1.0)).matrix();
}

struct CrossEntropyReference {
  Matrix losses;          ///< [1, N], not divided
  Matrix loss_magnitude;  ///< bounds what was added for each
  Matrix grad;            ///< [N, C] of the sum of the losses
  Matrix grad_magnitude;
  double divisor = 0.0;  ///< of the mean
};

/// targets[n] is a class or ignore_index; weight empty: ones.
inline CrossEntropyReference cross_entropy_reference(const Matrix& logits,
                                                     const std::vector<int64_t>& targets,
                                                     std::vector<double> weight,
                                                     int64_t ignore_index, double smoothing) {
  const Eigen::Index n = logits.rows();
  const Eigen::Index classes = logits.cols();
  if (weight.empty()) weight.assign(static_cast<size_t>(classes), 1.0);
  const Eigen::Map<const Eigen::RowVectorXd> w(weight.data(), classes);
  CrossEntropyReference result;
  result.losses = Matrix::Zero(1, n);
  result.loss_magnitude = Matrix::Zero(1, n);
  result.grad = Matrix::Zero(n, classes);
  result.grad_magnitude = Matrix::Zero(n, classes);
  if (n == 0) return result;
  const Matrix logp = log_softmax_reference(logits);
  const Matrix spread = row_spread(logits);
  for (Eigen::Index i = 0; i < n; ++i) {
    const int64_t target = targets[static_cast<size_t>(i)];
    if (target == ignore_index) continue;
    result.divisor += w[target];
    // The distribution that the sample is compared with, times the class weights.
    Eigen::RowVectorXd wanted = w * (smoothing / static_cast<double>(classes));
    wanted[target] += (1.0 - smoothing) * w[target];
    const double mass = wanted.sum();
    result.losses(0, i) = -(wanted.array() * logp.row(i).array()).sum();
    result.loss_magnitude(0, i) = mass * (spread(i, 0) + std::abs(logp.row(i).minCoeff()));
    const Eigen::RowVectorXd p = logp.row(i).array().exp();
    result.grad.row(i) = p * mass - wanted;
    result.grad_magnitude.row(i) = p * (mass * spread(i, 0)) + wanted;
  }
  return result;
}

struct LayerNormReference {
  Matrix normalised;
  Matrix output;
  Matrix grad_input;
  Matrix grad_weight;
  Matrix grad_bias;
  Matrix rstd;  ///< [rows, 1]
};

inline LayerNormReference layer_norm_reference(const Matrix& x, const Matrix& weight,
                                               const Matrix& bias, const Matrix& grad_output,
                                               double eps) {
  LayerNormReference result;
  const Matrix centered = x.colwise() - x.rowwise().mean();
  result.rstd = ((centered.array().square().rowwise().mean() + eps).sqrt().inverse()).matrix();
  result.normalised = (centered.array().colwise() * result.rstd.col(0).array()).matrix();
  result.output = (result.normalised.array().rowwise() * weight.row(0).array()).matrix();
  result.output.rowwise() += bias.row(0);
  result.grad_bias = grad_output.colwise().sum();
  result.grad_weight = (grad_output.array() * result.normalised.array()).colwise().sum().matrix();
  const Matrix g = (grad_output.array().rowwise() * weight.row(0).array()).matrix();
  const Eigen::VectorXd mean_g = g.rowwise().mean();
  const Eigen::VectorXd mean_gx = (g.array() * result.normalised.array()).rowwise().mean();
  const Matrix inner =
      (g.colwise() - mean_g) - (result.normalised.array().colwise() * mean_gx.array()).matrix();
  result.grad_input = (inner.array().colwise() * result.rstd.col(0).array()).matrix();
  return result;
}

}  // namespace lockstep::test
