// What a rank's arguments must be by themselves. A wrong one is not thrown here: the call goes to
// the meeting with its problem, so that the other ranks fail too instead of waiting.
#pragma once

#include "core/rank_reduce.h"
#include "core/tensor.h"
#include "dist/comm_queue.h"

namespace lockstep::dist {

/// A call on two tensors (the same one twice for an operation in place); its shape is input's.
CollectiveCall make_call(Collective collective, const Tensor& output, const Tensor& input);

void set_shape(CallFingerprint& fingerprint, const Shape& shape);

kernels::RankReduceOp kernel_op(ReduceOp op);

/// No average of integers.
void check_reduction(CollectiveCall& call);

/// The root is a rank.
void check_root(CollectiveCall& call, int world_size);

/// `all` has world_size times the rows of `part`, else equal.
void check_rows(CollectiveCall& call, const char* all_name, const Tensor& all,
                const char* part_name, const Tensor& part, int world_size);

}  // namespace lockstep::dist
