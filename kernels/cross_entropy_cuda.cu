// Cross-entropy on the device. One block looks at all targets first (a mean divides by the weights
// of those that count); then a block for each row finds its loss and its gradient; then one block
// adds the losses.
#include "kernels/bad_index.cuh"
#include "kernels/cross_entropy.h"
#include "kernels/row_exp.cuh"
#include "kernels/stream_buffer.h"

namespace lockstep::kernels::cuda {
namespace {

constexpr int kTargetThreads = 1024;

/// What the kernels need of CrossEntropyScalars and of the shapes.
struct Problem {
  const int64_t* targets;
  int64_t n;
  int64_t classes;
  int64_t ignore_index;
  double label_smoothing;
  bool mean;

  __device__ bool counts(int64_t target) const {
    return target != ignore_index && in_range(target, classes);
  }
};

/// divisor[0] = the weights (or the number) of the samples that count; 1 without mean.
template <typename A>
__global__ void __launch_bounds__(kTargetThreads)
    targets_kernel(double* divisor, BadIndex* bad, const A* class_weights, Problem problem) {
  __shared__ int64_t index_partial[kMaxWarps];
  __shared__ double partial[kMaxWarps];
  record_bad_index(bad, problem.targets, problem.n, problem.classes, index_partial,
                   [&](int64_t target) { return target == problem.ignore_index; });
  double weight = 0;
  for (int64_t i = threadIdx.x; i < problem.n; i += blockDim.x) {
    const int64_t target = problem.targets[i];
    if (!problem.counts(target)) continue;
    weight += class_weights == nullptr ? 1.0 : static_cast<double>(class_weights[target]);
  }
  weight = block_reduce(weight, Sum{}, 0.0, partial);
  if (threadIdx.x == 0) divisor[0] = problem.mean ? weight : 1.0;
}

/// sum_c w_c and sum_c w_c x_c, for label smoothing; both without cost when there is none.
template <typename A>
struct Smoothing {
  A weights = 0;
  A dot = 0;
};

template <typename T>
__device__ Smoothing<accumulate_t<T>> smoothing_of_row(const T* row, accumulate_t<T> max,
                                                       const accumulate_t<T>* class_weights,
                                                       int64_t classes, accumulate_t<T>* partial) {
  using A = accumulate_t<T>;
  Smoothing<A> own;
  const auto add = [&](int64_t c, A x) {
    const A weight = class_weights == nullptr ? A{1} : class_weights[c];
    own.weights += weight;
    own.dot += weight * (x - max);
  };
  visit(classes, threadIdx.x, blockDim.x, add, row);
  Smoothing<A> all;
  all.weights = block_reduce(own.weights, Sum{}, A{0}, partial);
  all.dot = block_reduce(own.dot, Sum{}, A{0}, partial);
  return all;
}

/// Returns the loss of a row whose target counts, and writes its gradient unless grad is null: see
/// Note [Cross-entropy of one row].
template <typename T>
__device__ accumulate_t<T> loss_of_row(accumulate_t<T>* grad, const T* row, int64_t target,
                                       const accumulate_t<T>* class_weights, const Problem& problem,
                                       double divisor, accumulate_t<T>* partial) {
  using A = accumulate_t<T>;
  const int64_t classes = problem.classes;
  const MaxAndSum<A> of_row = row_max_and_sum(row, classes, partial);
  const A soft = static_cast<A>(problem.label_smoothing / static_cast<double>(classes));
  const A own_weight = class_weights == nullptr ? A{1} : class_weights[target];
  const A hard = static_cast<A>(1.0 - problem.label_smoothing) * own_weight;
  const A log_sum = log(of_row.sum);
  A loss = hard * (log_sum - (widen(row[target]) - of_row.max));
  Smoothing<A> smoothing;
  if (soft != A{0}) {
    smoothing = smoothing_of_row(row, of_row.max, class_weights, classes, partial);
    loss += soft * (smoothing.weights * log_sum - smoothing.dot);
  }
  if (grad != nullptr) {
    const A scale = static_cast<A>(1.0 / divisor);
    const A factor = (hard + soft * smoothing.weights) * scale / of_row.sum;
    const auto formula = [&](int64_t c, A x) {
      A value = exp(x - of_row.max) * factor;
      if (soft != A{0}) {
        value -= soft * scale * (class_weights == nullptr ? A{1} : class_weights[c]);
      }
      return c == target ? value - hard * scale : value;
    };
    map(grad, classes, threadIdx.x, blockDim.x, formula, row);
  }
  return loss;
}

// One block a multiprocessor is enough: told so, the compiler takes the registers that fp64 needs
// and spills none.
/// Exactly one of loss (per sample) and losses is not null.
template <typename T>
__global__ void __launch_bounds__(512, 1)
    rows_kernel(accumulate_t<T>* loss, double* losses, accumulate_t<T>* grad_logits,
                const T* logits, const accumulate_t<T>* class_weights, const double* divisor,
                Problem problem) {
  using A = accumulate_t<T>;
  __shared__ A partial[kMaxWarps];
  const int64_t classes = problem.classes;
  for (int64_t r = blockIdx.x; r < problem.n; r += gridDim.x) {
    A* const grad = grad_logits == nullptr ? nullptr : grad_logits + r * classes;
    const int64_t target = problem.targets[r];
    A value = 0;
    if (problem.counts(target)) {
      value = loss_of_row(grad, logits + r * classes, target, class_weights, problem, divisor[0],
                          partial);
    } else if (grad != nullptr) {
      map(grad, classes, threadIdx.x, blockDim.x, [](int64_t) { return A{0}; });
    }
    if (threadIdx.x == 0) {
      if (loss != nullptr) loss[r] = value;
      if (losses != nullptr) losses[r] = static_cast<double>(value);
    }
  }
}

/// loss[0] = sum losses / divisor; 0 / 0, NaN, when no sample counts.
template <typename A>
__global__ void __launch_bounds__(kTargetThreads)
    total_kernel(A* loss, const double* losses, const double* divisor, int64_t n) {
  __shared__ double partial[kMaxWarps];
  double total = 0;
  visit(
      n, threadIdx.x, blockDim.x, [&](int64_t, double x) { total += x; }, losses);
  total = block_reduce(total, Sum{}, 0.0, partial);
  if (threadIdx.x == 0) loss[0] = static_cast<A>(total / divisor[0]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(T* grad_logits, const accumulate_t<T>* saved_grad,
                    const accumulate_t<T>* grad_loss, int64_t rows, int64_t n, bool accumulate) {
  using A = accumulate_t<T>;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const A factor = grad_loss[r];
    map_or_add(
        grad_logits + r * n, n, grid_thread(), grid_threads(), accumulate,
        [&](int64_t, A saved) { return saved * factor; }, saved_grad + r * n);
  }
}

unsigned threads_for_targets(int64_t n) {
  return static_cast<unsigned>(std::clamp<int64_t>((n + 31) / 32 * 32, 32, kTargetThreads));
}

}  // namespace

template <typename T>
void cross_entropy_forward(accumulate_t<T>* loss, accumulate_t<T>* grad_logits, BadIndex* bad,
                           const T* logits, const int64_t* targets,
                           const accumulate_t<T>* class_weights, int64_t n, int64_t classes,
                           const cpu::CrossEntropyScalars& scalars, Stream stream) {
  using A = accumulate_t<T>;
  const Problem problem{targets,     n, classes, scalars.ignore_index, scalars.label_smoothing,
                        scalars.mean};
  const StreamBuffer<double> scratch(scalars.per_sample ? 1 : n + 1, stream);
  double* const divisor = scratch.data();
  double* const losses = scalars.per_sample ? nullptr : divisor + 1;
  const unsigned threads = threads_for_targets(n);
  launch(targets_kernel<A>, 1, threads, 0, stream, divisor, bad, class_weights, problem);
  if (n > 0) {
    launch(rows_kernel<T>, blocks_for_rows(n), threads_for_row(classes), 0, stream,
           scalars.per_sample ? loss : nullptr, losses, grad_logits, logits, class_weights, divisor,
           problem);
  }
  if (!scalars.per_sample) {
    launch(total_kernel<A>, 1, threads, 0, stream, loss, losses, divisor, n);
  }
}

template <typename T>
void cross_entropy_backward(T* grad_logits, const accumulate_t<T>* saved_grad,
                            const accumulate_t<T>* grad_loss, int64_t n, int64_t classes,
                            bool per_sample, bool accumulate, Stream stream) {
  if (n == 0 || classes == 0) return;
  // One factor for all: the rows are one long row.
  const int64_t rows = per_sample ? n : 1;
  const int64_t length = per_sample ? classes : n * classes;
  const dim3 grid(blocks_for(length, kGroupWidth<T, accumulate_t<T>>), blocks_for_rows(rows));
  launch(backward_kernel<T>, grid, kThreads, 0, stream, grad_logits, saved_grad, grad_loss, rows,
         length, accumulate);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                    \
  template void cross_entropy_forward<T>(accumulate_t<T>*, accumulate_t<T>*, BadIndex*, const T*,  \
                                         const int64_t*, const accumulate_t<T>*, int64_t, int64_t, \
                                         const cpu::CrossEntropyScalars&, Stream);                 \
  template void cross_entropy_backward<T>(T*, const accumulate_t<T>*, const accumulate_t<T>*,      \
                                          int64_t, int64_t, bool, bool, Stream);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Half)
LOCKSTEP_INSTANTIATE(BFloat16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::kernels::cuda
