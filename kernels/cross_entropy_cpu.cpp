// Cross-entropy on the CPU. A row's loss is computed in double from its fp32 exponentials, so that
// neither the number of classes nor the number of samples costs accuracy.
#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/lane_sum.h"
#include "kernels/row_exp.h"

namespace lockstep::kernels::cpu {
namespace {

int64_t first_bad_target(const int64_t* targets, int64_t n, int64_t classes, int64_t ignore_index) {
  for (int64_t i = 0; i < n; ++i) {
    const bool in_range = targets[i] >= 0 && targets[i] < classes;
    if (!in_range && targets[i] != ignore_index) return i;
  }
  return -1;
}

/// What the mean divides by: the weights (or the number) of the samples that are not ignored.
template <typename A>
double counted_weight(const int64_t* targets, const A* class_weights, int64_t n,
                      int64_t ignore_index) {
  double total = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    if (targets[i] == ignore_index) continue;
    total += class_weights == nullptr ? 1.0 : static_cast<double>(class_weights[targets[i]]);
  }
  return total;
}

// Note [Cross-entropy of one row]
// With z = x - max, s = sum_c exp(z_c), p = exp(z) / s and e = label_smoothing, a sample of target
// t loses
//   hard * (log s - z_t) + soft * sum_c w_c (log s - z_c),  hard = (1 - e) w_t,  soft = e / C.
// Its derivative by x_c is p_c * (hard + soft * sum w) - soft * w_c - (c == t ? hard : 0).
template <typename T>
class Row {
 public:
  using A = accumulate_t<T>;

  Row(const A* class_weights, int64_t classes, double label_smoothing)
      : weights_(class_weights),
        classes_(classes),
        keep_(1.0 - label_smoothing),
        soft_(label_smoothing / static_cast<double>(classes)) {
    if (soft_ != 0.0) {
      weight_sum_ = lane_sum(classes, [&](int64_t c) { return weight(c); });
    }
  }

  /// Returns the loss; writes scale times its gradient to grad unless that is null.
  double loss(A* grad, const T* logits, int64_t target, double scale) const {
    const A max = row_max(logits, classes_);
    const double sum = row_exp_sum(grad, logits, classes_, max);
    const double log_sum = std::log(sum);
    const double hard = keep_ * weight(target);
    const auto shifted = [&](int64_t c) {
      return static_cast<double>(static_cast<A>(logits[c])) - static_cast<double>(max);
    };
    double result = hard * (log_sum - shifted(target));
    if (soft_ != 0.0) {
      const double dot = lane_sum(classes_, [&](int64_t c) { return weight(c) * shifted(c); });
      result += soft_ * (weight_sum_ * log_sum - dot);
    }
    if (grad != nullptr) gradient(grad, target, hard, scale / sum, scale);
    return result;
  }

 private:
  double weight(int64_t c) const {
    return weights_ == nullptr ? 1.0 : static_cast<double>(weights_[c]);
  }

  /// grad holds exp(z) and becomes the gradient.
  void gradient(A* grad, int64_t target, double hard, double scale_by_sum, double scale) const {
    const A factor = static_cast<A>((hard + soft_ * weight_sum_) * scale_by_sum);
    for (int64_t c = 0; c < classes_; ++c) grad[c] *= factor;
    if (soft_ != 0.0) {
      const A uniform = static_cast<A>(soft_ * scale);
      for (int64_t c = 0; c < classes_; ++c) grad[c] -= uniform * static_cast<A>(weight(c));
    }
    grad[target] -= static_cast<A>(hard * scale);
  }

  const A* weights_;
  int64_t classes_;
  double keep_;
  double soft_;
  double weight_sum_ = 0.0;
};

}  // namespace

template <typename T>
int64_t cross_entropy_forward(accumulate_t<T>* loss, accumulate_t<T>* grad_logits, const T* logits,
                              const int64_t* targets, const accumulate_t<T>* class_weights,
                              int64_t n, int64_t classes, const CrossEntropyScalars& scalars) {
  using A = accumulate_t<T>;
  const int64_t bad = first_bad_target(targets, n, classes, scalars.ignore_index);
  if (bad >= 0) return bad;

  const Row<T> row(class_weights, classes, scalars.label_smoothing);
  // Zero when every sample is ignored: 0 / 0 then makes the mean NaN, as it should.
  const double divisor =
      scalars.mean ? counted_weight(targets, class_weights, n, scalars.ignore_index) : 1.0;
  double total = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    A* const grad = grad_logits == nullptr ? nullptr : grad_logits + i * classes;
    double sample = 0.0;
    if (targets[i] != scalars.ignore_index) {
      sample = row.loss(grad, logits + i * classes, targets[i], 1.0 / divisor);
    } else if (grad != nullptr) {
      std::fill_n(grad, classes, A{});
    }
    if (scalars.per_sample) loss[i] = static_cast<A>(sample);
    total += sample;
  }
  if (!scalars.per_sample) loss[0] = static_cast<A>(total / divisor);
  return -1;
}

template <typename T>
void cross_entropy_backward(T* grad_logits, const accumulate_t<T>* saved_grad,
                            const accumulate_t<T>* grad_loss, int64_t n, int64_t classes,
                            bool per_sample, bool accumulate) {
  using A = accumulate_t<T>;
  for (int64_t i = 0; i < n; ++i) {
    const A factor = grad_loss[per_sample ? i : 0];
    T* __restrict grad = grad_logits + i * classes;
    const A* __restrict saved = saved_grad + i * classes;
    if (accumulate) {
      for (int64_t c = 0; c < classes; ++c) {
        grad[c] = static_cast<T>(static_cast<A>(grad[c]) + saved[c] * factor);
      }
    } else {
      for (int64_t c = 0; c < classes; ++c) grad[c] = static_cast<T>(saved[c] * factor);
    }
  }
}

#define LOCKSTEP_INSTANTIATE(T)                                                               \
  template int64_t cross_entropy_forward<T>(accumulate_t<T>*, accumulate_t<T>*, const T*,     \
                                            const int64_t*, const accumulate_t<T>*, int64_t,  \
                                            int64_t, const CrossEntropyScalars&);             \
  template void cross_entropy_backward<T>(T*, const accumulate_t<T>*, const accumulate_t<T>*, \
                                          int64_t, int64_t, bool, bool);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cpu
