// The reduction that all-reduce is made of: W buffers of the same length, element by element, in
// rank order, in one pass over memory.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

enum class RankReduceOp : uint8_t { Sum, Average, Max, Min };

namespace cpu {

/// y[i] = x_0[i] (op) x_1[i] (op) ... in the order of `inputs`; y is written to every output.
///   Sum, Average  16-bit floats in fp32, rounded once; Int64 and UInt8 wrap around
///   Average       the sum of x_r[i] * (1 / num_inputs), the factor rounded to the type of the sum;
///                 floating types only
///   Max, Min      NaN if any x_r[i] is; of equal values (+0 and -0) the first
/// outputs: num_outputs pointers to n elements of T, each equal to one of the inputs or apart from
/// all of them; inputs: num_inputs >= 1 pointers to n elements of T. T: float, double, Half,
/// BFloat16, int64_t, uint8_t. The bits are the same on every CPU.
template <typename T>
void rank_reduce(void* const* outputs, const void* const* inputs, int num_outputs, int num_inputs,
                 int64_t n, RankReduceOp op);

}  // namespace cpu
}  // namespace lockstep::kernels
