// The engine for ranks of one host: collectives are loops over shared memory between two meetings.
// Memory from allocate() is reduced where it lies; other tensors pass through staging chunks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/comm_queue.h"
#include "dist/process_group.h"
#include "dist/shared_memory.h"
#include "dist/shared_region.h"
#include "dist/shm_barrier.h"

namespace lockstep::dist {

/// Ranks are processes or threads (or both). One thread of a rank calls the collectives, abort()
/// may come from any. A destroyed group has left: ranks that still wait for it get
/// an error.
class ShmProcessGroup final : public ProcessGroup {
 public:
  /// Meets the other ranks; throws what meet_in_shared_memory throws.
  ShmProcessGroup(Store& store, int rank, int world_size, Milliseconds timeout);
  ~ShmProcessGroup() override;
  ShmProcessGroup(const ShmProcessGroup&) = delete;
  ShmProcessGroup& operator=(const ShmProcessGroup&) = delete;

  const char* backend() const override { return "shm"; }
  std::shared_ptr<Work> all_reduce_async(const Tensor& tensor, ReduceOp op) override;
  void all_reduce(const Tensor& tensor, ReduceOp op) override;
  void broadcast(const Tensor& tensor, int root) override;
  void all_gather(const Tensor& output, const Tensor& input) override;
  void reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op) override;
  void barrier() override;
  Tensor allocate(const Shape& shape, DType dtype) override;
  void set_phase(const Phase& phase) override;
  void abort(const std::string& reason) noexcept override;
  int64_t bytes_communicated() const override;

 private:
  CollectiveCall all_reduce_call(const Tensor& tensor, ReduceOp op) const;
  void execute(CollectiveCall& call, bool waiting);
  void perform(CollectiveCall& call);
  void all_reduce(CollectiveCall& call);
  void reduce_in_place(const CollectiveCall& call, const SharedRegion& region);
  void all_reduce_staged(CollectiveCall& call);
  void broadcast(CollectiveCall& call);
  void all_gather(CollectiveCall& call);
  void reduce_scatter(CollectiveCall& call);
  template <typename CopyIn, typename Consume>
  void exchange(CollectiveCall& call, int64_t chunk_bytes, CopyIn copy_in, Consume consume);
  std::shared_ptr<SharedRegion> region_of(const void* data, int64_t nbytes, int64_t& location);
  void reduce(void* output, const CollectiveCall& call, int64_t offset_bytes, int64_t count);
  void copy(void* to, const void* from, int64_t nbytes);
  std::byte* staging(int rank) const { return barrier_->group().staging(rank, barrier_->parity()); }
  void count_bytes(int64_t nbytes) { bytes_.fetch_add(nbytes, std::memory_order_relaxed); }

  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<ShmBarrier> barrier_;
  std::unique_ptr<CommQueue> queue_;
  std::vector<std::weak_ptr<SharedRegion>> regions_;
  int64_t next_offset_ = 0;
  uint64_t sequence_ = 0;
  std::chrono::nanoseconds waiting_spin_{0};
  std::chrono::nanoseconds background_spin_{0};
  std::atomic<int64_t> bytes_{0};
};

}  // namespace lockstep::dist
