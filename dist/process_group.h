// ProcessGroup: W ranks and the collectives between them. Three engines implement it; DDP knows
// only this interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "dist/store.h"

namespace lockstep::dist {

/// Average exists for floating dtypes; it is the sum in rank order of x_r * (1/W), where 1/W is
/// rounded to the type of the sum. 16-bit floats are summed in fp32 and rounded once. Int64 and
/// UInt8 sums wrap around. Max and Min are NaN where any x_r is.
enum class ReduceOp : uint8_t { Sum, Average, Max, Min };

const char* reduce_op_name(ReduceOp op);

/// A collective under way. Dropping it does not cancel it.
class Work {
 public:
  virtual ~Work() = default;
  /// Until the result is there. Throws what the collective threw: Error(PeerLost) naming a dead
  /// rank, its last phase and the operation; Error(Timeout) naming the ranks that did not arrive.
  virtual void wait() = 0;
  virtual bool is_completed() const = 0;
};

/// What this rank is doing, for the messages of others: "step 120, backward, bucket 2". Strings
/// must be literals.
struct Phase {
  const char* name = "start";
  int64_t step = -1;
  int64_t bucket = -1;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Device device() const { return device_; }
  virtual const char* backend() const = 0;

  // Collectives. Every rank calls the same ones in the same order with equal shapes and dtypes; a
  // difference is an Error on every rank that names operation, rank and both sides. The tensors
  // must live until the work is done.
  virtual std::shared_ptr<Work> all_reduce_async(const Tensor& tensor, ReduceOp op) = 0;
  virtual void all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::Sum) {
    all_reduce_async(tensor, op)->wait();
  }
  /// tensor of rank `root` to all.
  virtual void broadcast(const Tensor& tensor, int root) = 0;
  /// output [W * N, ...]: rank r's input [N, ...] at rows [r N, (r+1) N).
  virtual void all_gather(const Tensor& output, const Tensor& input) = 0;
  /// output = rows [rank N, (rank+1) N) of the reduction of input [W * N, ...].
  virtual void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op) = 0;
  virtual void barrier() = 0;

  /// Memory that this engine reduces fastest (shared memory, registered memory), zero-filled.
  /// Collective: every rank calls it with the same shapes, in the same order.
  virtual Tensor allocate(const Shape& shape, DType dtype) = 0;

  /// Tells the other ranks what this one does; cheap (no system call).
  virtual void set_phase(const Phase& phase) = 0;

  /// Makes every rank's current and later collectives throw, with this reason. Called when this
  /// rank gives up; never throws.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Bytes that this rank's engine has read from or written to memory shared with other ranks.
  virtual int64_t bytes_communicated() const = 0;

 protected:
  ProcessGroup(int rank, int world_size, Device device)
      : rank_(rank), world_size_(world_size), device_(device) {}

 private:
  int rank_;
  int world_size_;
  Device device_;
};

struct ProcessGroupOptions {
  std::string backend;      ///< "shm"; empty or "nccl" without a GPU: the best engine for this host
  int rank = -1;            ///< -1: from the launcher or RANK
  int world_size = -1;      ///< -1: from the launcher or WORLD_SIZE
  std::string init_method;  ///< "", "env://", "file://PATH"
  std::shared_ptr<Store> store;   ///< instead of init_method
  Milliseconds timeout{600'000};  ///< of every wait for another rank
};

/// Joins the group: binds this rank's device, meets the other ranks through the store, sets up the
/// engine. Alone (no launcher, no RANK): a group of one.
/// throws Error(Usage) on contradictions, Error(Timeout) naming the ranks that did not come
/// source: torch.distributed.init_process_group
std::shared_ptr<ProcessGroup> init_process_group(const ProcessGroupOptions& options = {});

}  // namespace lockstep::dist
