// Argument checks; the first problem found is kept.
#include "dist/shm_arguments.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace lockstep::dist {
namespace {

template <typename... Parts>
void expect(CollectiveCall& call, bool condition, const Parts&... parts) {
  if (!condition && call.problem.empty()) call.problem = concat(parts...);
}

/// True if [A, ...] and [B, ...] agree but for A = factor * B. A scalar counts as one row.
bool rows_agree(const Shape& all, const Shape& part, int64_t factor) {
  if (part.dim() == 0) return all.dim() == 1 && all[0] == factor;
  return all.dim() == part.dim() && all[0] == factor * part[0] &&
         std::equal(all.begin() + 1, all.end(), part.begin() + 1);
}

}  // namespace

void set_shape(CallFingerprint& fingerprint, const Shape& shape) {
  fingerprint.num_dims = static_cast<uint8_t>(shape.dim());
  std::copy(shape.begin(), shape.end(), fingerprint.sizes.begin());
}

CollectiveCall make_call(Collective collective, const Tensor& output, const Tensor& input) {
  CollectiveCall call;
  call.fingerprint.collective = collective;
  const bool defined = output.defined() && input.defined();
  expect(call, defined, "a tensor is undefined; give it a value first");
  if (!defined) return call;
  call.fingerprint.dtype = input.dtype();
  set_shape(call.fingerprint, input.shape());
  expect(call, input.device().is_cpu() && output.device().is_cpu(), "a tensor is on ",
         input.device(), ", the shm engine reduces on the CPU; move it with to(kCPU)");
  expect(call, output.dtype() == input.dtype(), "the output is ", output.dtype(), ", the input is ",
         input.dtype(), "; convert one of them with to()");
  call.output = output.raw_data();
  call.input = input.raw_data();
  call.count = input.numel();
  return call;
}

kernels::RankReduceOp kernel_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return kernels::RankReduceOp::Sum;
    case ReduceOp::Average:
      return kernels::RankReduceOp::Average;
    case ReduceOp::Max:
      return kernels::RankReduceOp::Max;
    case ReduceOp::Min:
      return kernels::RankReduceOp::Min;
  }
  LOCKSTEP_THROW(Internal, "all_reduce: unknown reduce op ", static_cast<int>(op));
}

void check_reduction(CollectiveCall& call) {
  expect(call,
         call.fingerprint.reduce_op != ReduceOp::Average || is_floating(call.fingerprint.dtype),
         "there is no average of ", call.fingerprint.dtype,
         "; use ReduceOp::Sum, or convert the tensor to a floating dtype");
}

void check_root(CollectiveCall& call, int world_size) {
  const int root = call.fingerprint.root;
  expect(call, root >= 0 && root < world_size, "root ", root, " is not a rank of 0 to ",
         world_size - 1);
}

void check_rows(CollectiveCall& call, const char* all_name, const Tensor& all,
                const char* part_name, const Tensor& part, int world_size) {
  if (!call.problem.empty()) return;
  expect(call, rows_agree(all.shape(), part.shape(), world_size), all_name, " has shape ",
         all.shape(), ", ", part_name, " has shape ", part.shape(), "; ", all_name, " must have ",
         world_size, " times the rows of ", part_name);
}

}  // namespace lockstep::dist
