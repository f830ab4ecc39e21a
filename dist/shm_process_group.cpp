// The collectives. Each is a sequence of meetings (dist/shm_barrier.h) with loops in between; see
// Note [Staging].
#include "dist/shm_process_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "core/base/fault.h"
#include "core/rank_reduce.h"
#include "dist/shm_arguments.h"
#include "dist/shm_rendezvous.h"
#include "dist/shm_report.h"
#include "dist/spin_policy.h"

namespace lockstep::dist {

// Note [Staging]
// A tensor outside the shared memory moves in chunks: every rank copies its chunk in, all meet,
// every rank takes what it needs out of the others' chunks. There are two chunks a rank, used in
// turn: a rank can fill the next one while a slow one still reads the last, and it cannot get
// further ahead, because the next meeting needs the slow one. So one meeting a chunk is enough.

ShmProcessGroup::ShmProcessGroup(Store& store, int rank, int world_size, Milliseconds timeout)
    : ProcessGroup(rank, world_size, kCPU) {
  const int64_t nbytes = SharedGroup::nbytes(world_size);
  memory_ = meet_in_shared_memory(store, rank, world_size, nbytes, timeout);
  next_offset_ = round_to_pages(nbytes);
  SharedGroup group(memory_->map(0, nbytes), world_size);
  barrier_ = std::make_unique<ShmBarrier>(group, rank, timeout);
  RankSlot& slot = group.slot(rank);
  store_phase(slot.phase, Phase{});
  store_cpus(slot);
  slot.pid.store(::getpid(), std::memory_order_relaxed);
  slot.presence.store(Presence::Joined);
  fault_point("joined", rank);
  barrier_->meet(CallFingerprint{.collective = Collective::Barrier});
  barrier_->watch_peers();
  const SpinPolicy policy = spin_policy(group);
  waiting_spin_ = policy.waiting;
  background_spin_ = policy.background;
  queue_ = std::make_unique<CommQueue>(
      [this](CollectiveCall& call, bool waiting) { execute(call, waiting); },
      /*background=*/world_size > 1, /*spin=*/policy.background.count() > 0);
}

ShmProcessGroup::~ShmProcessGroup() {
  if (std::uncaught_exceptions() > 0) {
    abort("it left its process group because of an error; see its own output");
  }
  queue_->drain();
  fault_point("leaving", rank());
  barrier_->group().slot(rank()).presence.store(Presence::Left);
  barrier_->group().wake();
}

std::shared_ptr<Work> ShmProcessGroup::all_reduce_async(const Tensor& tensor, ReduceOp op) {
  return queue_->submit(all_reduce_call(tensor, op));
}

void ShmProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op) {
  queue_->run(all_reduce_call(tensor, op));
}

CollectiveCall ShmProcessGroup::all_reduce_call(const Tensor& tensor, ReduceOp op) const {
  CollectiveCall call = make_call(Collective::AllReduce, tensor, tensor);
  call.fingerprint.reduce_op = op;
  check_reduction(call);
  if (call.problem.empty()) tensor.bump_version();
  return call;
}

void ShmProcessGroup::broadcast(const Tensor& tensor, int root) {
  CollectiveCall call = make_call(Collective::Broadcast, tensor, tensor);
  call.fingerprint.root = root;
  check_root(call, world_size());
  if (call.problem.empty()) tensor.bump_version();
  queue_->run(call);
}

void ShmProcessGroup::all_gather(const Tensor& output, const Tensor& input) {
  CollectiveCall call = make_call(Collective::AllGather, output, input);
  check_rows(call, "output", output, "input", input, world_size());
  if (call.problem.empty()) output.bump_version();
  queue_->run(call);
}

void ShmProcessGroup::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op) {
  CollectiveCall call = make_call(Collective::ReduceScatter, output, input);
  call.fingerprint.reduce_op = op;
  check_reduction(call);
  check_rows(call, "input", input, "output", output, world_size());
  if (call.problem.empty()) {
    call.count = output.numel();
    output.bump_version();
  }
  queue_->run(call);
}

void ShmProcessGroup::barrier() {
  CollectiveCall call;
  call.fingerprint.collective = Collective::Barrier;
  queue_->run(call);
}

Tensor ShmProcessGroup::allocate(const Shape& shape, DType dtype) {
  const int64_t nbytes = shape.numel() * element_size(dtype);
  const int64_t file_bytes = SharedRegion::file_bytes(nbytes, world_size());
  CollectiveCall call;
  call.fingerprint.collective = Collective::Allocate;
  call.fingerprint.dtype = dtype;
  set_shape(call.fingerprint, shape);
  if (rank() == 0) memory_->grow(next_offset_ + file_bytes);
  queue_->run(call);
  auto region = std::make_shared<SharedRegion>(memory_, next_offset_, nbytes, rank(), world_size());
  next_offset_ += file_bytes;
  std::erase_if(regions_, [](const auto& known) { return known.expired(); });
  regions_.push_back(region);
  std::byte* data = region->buffer(rank());
  const auto storage = Storage::borrow(data, nbytes, kCPU, std::move(region));
  return Tensor::from_storage(storage, 0, shape, dtype);
}

void ShmProcessGroup::set_phase(const Phase& phase) {
  store_phase(barrier_->group().slot(rank()).phase, phase);
}

void ShmProcessGroup::abort(const std::string& reason) noexcept {
  barrier_->group().fail(rank(), ErrorKind::PeerLost, reason);
}

int64_t ShmProcessGroup::bytes_communicated() const {
  return bytes_.load(std::memory_order_relaxed);
}

void ShmProcessGroup::execute(CollectiveCall& call, bool waiting) {
  call.fingerprint.sequence = ++sequence_;
  barrier_->set_spin(waiting ? waiting_spin_ : background_spin_);
  try {
    perform(call);
  } catch (const std::exception& error) {
    // What fails between two meetings fails on this rank alone, which is then out of step.
    if (!barrier_->threw()) abort(error.what());
    throw;
  }
}

void ShmProcessGroup::perform(CollectiveCall& call) {
  switch (call.fingerprint.collective) {
    case Collective::AllReduce:
      return all_reduce(call);
    case Collective::Broadcast:
      return broadcast(call);
    case Collective::AllGather:
      return all_gather(call);
    case Collective::ReduceScatter:
      return reduce_scatter(call);
    default:  // a meeting is all there is to it
      barrier_->meet(call.fingerprint, 0, call.problem);
  }
}

void ShmProcessGroup::all_reduce(CollectiveCall& call) {
  int64_t location = 0;
  const int64_t nbytes = call.count * element_size(call.fingerprint.dtype);
  const auto region = region_of(call.output, nbytes, location);
  // The first meeting tells whether all ranks' tensors are in the same place.
  if (barrier_->meet(call.fingerprint, location, call.problem)) {
    fault_point("mid-bucket", rank());
    reduce_in_place(call, *region);
    fault_point("bucket-reduced", rank());
    barrier_->meet(call.fingerprint);
  } else {
    all_reduce_staged(call);
  }
}

/// This rank's share: one slice of the elements, over all ranks, written to all ranks.
void ShmProcessGroup::reduce_in_place(const CollectiveCall& call, const SharedRegion& region) {
  const int64_t size = element_size(call.fingerprint.dtype);
  const int64_t align = static_cast<int64_t>(kCacheLine) / size;
  const int64_t share = (call.count + world_size() - 1) / world_size();
  const int64_t slice = (share + align - 1) / align * align;
  const int64_t begin = std::min(call.count, rank() * slice);
  const int64_t count = std::min(slice, call.count - begin);
  if (count == 0 || world_size() == 1) return;  // of one rank, every reduction is itself
  const int64_t offset =
      static_cast<std::byte*>(call.output) - region.buffer(rank()) + begin * size;
  std::array<void*, kMaxRanks> buffers;
  for (int r = 0; r < world_size(); ++r)
    buffers[static_cast<size_t>(r)] = region.buffer(r) + offset;
  lockstep::rank_reduce(buffers.data(), buffers.data(), world_size(), world_size(), count,
                        call.fingerprint.dtype, kernel_op(call.fingerprint.reduce_op));
  count_bytes(2 * world_size() * count * size);
}

/// Reduces `count` elements that begin at offset_bytes of every rank's chunk into output.
void ShmProcessGroup::reduce(void* output, const CollectiveCall& call, int64_t offset_bytes,
                             int64_t count) {
  std::array<const void*, kMaxRanks> inputs;
  for (int r = 0; r < world_size(); ++r) inputs[static_cast<size_t>(r)] = staging(r) + offset_bytes;
  lockstep::rank_reduce(&output, inputs.data(), 1, world_size(), count, call.fingerprint.dtype,
                        kernel_op(call.fingerprint.reduce_op));
  count_bytes(world_size() * count * element_size(call.fingerprint.dtype));
}

/// copy_in(chunk, begin, count) and consume(begin, count) for every part of the elements that fits
/// chunk_bytes, with a meeting in between. See Note [Staging].
template <typename CopyIn, typename Consume>
void ShmProcessGroup::exchange(CollectiveCall& call, int64_t chunk_bytes, CopyIn copy_in,
                               Consume consume) {
  const int64_t chunk = std::max<int64_t>(1, chunk_bytes / element_size(call.fingerprint.dtype));
  int64_t begin = 0;
  do {
    const int64_t count = std::min(chunk, call.count - begin);
    if (call.problem.empty() && count > 0) {
      copy_in(barrier_->group().staging(rank(), barrier_->next_parity()), begin, count);
    }
    barrier_->meet(call.fingerprint, 0, call.problem);
    if (count > 0) consume(begin, count);
    begin += count;
  } while (begin < call.count);
}

void ShmProcessGroup::all_reduce_staged(CollectiveCall& call) {
  const int64_t size = element_size(call.fingerprint.dtype);
  std::byte* data = static_cast<std::byte*>(call.output);
  exchange(
      call, kChunkBytes,
      [&](std::byte* chunk, int64_t begin, int64_t count) {
        copy(chunk, data + begin * size, count * size);
      },
      [&](int64_t begin, int64_t count) { reduce(data + begin * size, call, 0, count); });
}

void ShmProcessGroup::broadcast(CollectiveCall& call) {
  const int64_t size = element_size(call.fingerprint.dtype);
  const int root = call.fingerprint.root;
  std::byte* data = static_cast<std::byte*>(call.output);
  exchange(
      call, kChunkBytes,
      [&](std::byte* chunk, int64_t begin, int64_t count) {
        if (rank() == root) copy(chunk, data + begin * size, count * size);
      },
      [&](int64_t begin, int64_t count) {
        if (rank() != root) copy(data + begin * size, staging(root), count * size);
      });
}

void ShmProcessGroup::all_gather(CollectiveCall& call) {
  const int64_t size = element_size(call.fingerprint.dtype);
  const std::byte* input = static_cast<const std::byte*>(call.input);
  std::byte* output = static_cast<std::byte*>(call.output);
  exchange(
      call, kChunkBytes,
      [&](std::byte* chunk, int64_t begin, int64_t count) {
        copy(chunk, input + begin * size, count * size);
      },
      [&](int64_t begin, int64_t count) {
        for (int r = 0; r < world_size(); ++r) {
          copy(output + (r * call.count + begin) * size, staging(r), count * size);
        }
      });
}

void ShmProcessGroup::reduce_scatter(CollectiveCall& call) {
  const int64_t size = element_size(call.fingerprint.dtype);
  const std::byte* input = static_cast<const std::byte*>(call.input);
  std::byte* output = static_cast<std::byte*>(call.output);
  exchange(
      call, kChunkBytes / world_size(),
      [&](std::byte* chunk, int64_t begin, int64_t count) {
        for (int r = 0; r < world_size(); ++r) {
          copy(chunk + r * count * size, input + (r * call.count + begin) * size, count * size);
        }
      },
      [&](int64_t begin, int64_t count) {
        reduce(output + begin * size, call, rank() * count * size, count);
      });
}

/// Between a tensor and the shared memory, either way.
void ShmProcessGroup::copy(void* to, const void* from, int64_t nbytes) {
  std::memcpy(to, from, static_cast<size_t>(nbytes));
  count_bytes(nbytes);
}

std::shared_ptr<SharedRegion> ShmProcessGroup::region_of(const void* data, int64_t nbytes,
                                                         int64_t& location) {
  for (const auto& known : regions_) {
    auto region = known.lock();
    if (region == nullptr) continue;
    location = region->location_of(data, nbytes);
    if (location != 0) return region;
  }
  return nullptr;
}

}  // namespace lockstep::dist
