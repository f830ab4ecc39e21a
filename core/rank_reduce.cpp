// The one dispatch of rank_reduce.
#include "core/rank_reduce.h"

namespace lockstep {

void rank_reduce(void* const* outputs, const void* const* inputs, int num_outputs, int num_inputs,
                 int64_t n, DType dtype, kernels::RankReduceOp op) {
  LOCKSTEP_CHECK(op != kernels::RankReduceOp::Average || is_floating(dtype),
                 "rank_reduce: no average of ", dtype, "; sum it, or convert it to a float");
  dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    kernels::cpu::rank_reduce<T>(outputs, inputs, num_outputs, num_inputs, n, op);
  });
}

}  // namespace lockstep
