// Cross-entropy of raw scores, fused: one pass over each row finds its loss and, when a backward
// will follow, its gradient, so that the backward only scales what is already there.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/bad_index.h"
#include "kernels/stream.h"

namespace lockstep::kernels::cpu {

struct CrossEntropyScalars {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  bool mean = true;         ///< divide by the weights of the samples that count
  bool per_sample = false;  ///< one loss a sample; `mean` is then false
};

/// loss [1], or [N] when per_sample; grad_logits [N, C], or null: d(sum of the losses)/d(logits).
/// logits [N, C]; targets [N]; class_weights [C] or null (all ones).
/// Returns the first sample whose target is neither in [0, C) nor ignore_index, having written
/// nothing; -1 when there is none.
template <typename T>
int64_t cross_entropy_forward(accumulate_t<T>* loss, accumulate_t<T>* grad_logits, const T* logits,
                              const int64_t* targets, const accumulate_t<T>* class_weights,
                              int64_t n, int64_t classes, const CrossEntropyScalars& scalars);

/// grad_logits[n, c] (+)= saved_grad[n, c] * grad_loss[per_sample ? n : 0]
template <typename T>
void cross_entropy_backward(T* grad_logits, const accumulate_t<T>* saved_grad,
                            const accumulate_t<T>* grad_loss, int64_t n, int64_t classes,
                            bool per_sample, bool accumulate);

}  // namespace lockstep::kernels::cpu

namespace lockstep::kernels::cuda {

/// As cpu's, except that a target out of range is recorded in `bad` and counts as one that is
/// ignored.
template <typename T>
void cross_entropy_forward(accumulate_t<T>* loss, accumulate_t<T>* grad_logits, BadIndex* bad,
                           const T* logits, const int64_t* targets,
                           const accumulate_t<T>* class_weights, int64_t n, int64_t classes,
                           const cpu::CrossEntropyScalars& scalars, Stream stream);
template <typename T>
void cross_entropy_backward(T* grad_logits, const accumulate_t<T>* saved_grad,
                            const accumulate_t<T>* grad_loss, int64_t n, int64_t classes,
                            bool per_sample, bool accumulate, Stream stream);

}  // namespace lockstep::kernels::cuda
