// rank_reduce for a DType chosen at run time: the process groups reduce raw memory of any dtype.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "kernels/rank_reduce.h"

namespace lockstep {

/// kernels::cpu::rank_reduce for elements of `dtype`.
/// throws Error for Average of an integer dtype
void rank_reduce(void* const* outputs, const void* const* inputs, int num_outputs, int num_inputs,
                 int64_t n, DType dtype, kernels::RankReduceOp op);

}  // namespace lockstep
