// Dropout. The random words are drawn here, a small block at a time, and compared in the kernel:
// the mask, one byte an element, is kept for the backward.
#include "kernels/dropout.h"

#include <algorithm>
#include <array>

#include "core/autograd_node.h"
#include "core/ops.h"
#include "core/ops/common.h"
#include "core/random.h"

namespace lockstep::ops {
namespace {

constexpr const char* kName = "dropout";
constexpr int64_t kBlock = 1024;

struct Saved {
  Tensor mask;  ///< UInt8, 1 where the element was kept
  double keep = 1.0;
};

void backward(autograd::BackwardContext& context, const Saved& saved) {
  context.grad_input(0, [&](const Tensor& grad, bool accumulate) {
    dispatch_floating(kName, grad.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::cpu::dropout_backward<T>(grad.data<T>(), context.grad_output().data<T>(),
                                        saved.mask.data<uint8_t>(), grad.numel(), saved.keep,
                                        accumulate);
    });
  });
}

}  // namespace

Tensor dropout(const Tensor& input, double p, bool training) {
  LOCKSTEP_CHECK(p >= 0.0 && p <= 1.0, kName, ": p is ", p, ", expected 0 to 1");
  require_cpu(kName, input);
  LOCKSTEP_CHECK(is_floating(input.dtype()), kName, ": input is ", input.dtype(),
                 ", expected a floating dtype");
  if (!training || p == 0.0 || input.numel() == 0) return input;
  if (p == 1.0) return mul(input, 0.0);

  Tensor output = empty_like(input);
  Saved saved{.mask = empty(input.shape(), DType::UInt8, input.device()), .keep = 1.0 - p};
  Generator& generator = default_generator();
  std::array<uint32_t, 2 * kBlock> words;
  dispatch_floating(kName, input.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t begin = 0; begin < input.numel(); begin += kBlock) {
      const int64_t count = std::min(kBlock, input.numel() - begin);
      generator.random_fill(std::span(words.data(), static_cast<size_t>(2 * count)));
      kernels::cpu::dropout_forward<T>(output.data<T>() + begin, saved.mask.data<uint8_t>() + begin,
                                       input.data<T>() + begin, words.data(), count, saved.keep);
    }
  });
  if (autograd::should_record({input})) {
    autograd::record(kName, output, {input}, std::move(saved), backward);
  }
  return output;
}

}  // namespace lockstep::ops
