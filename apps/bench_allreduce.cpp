// All-reduce through the engine, and beside it the least that any engine must do: each rank adds up
// its share of all ranks' buffers in shared memory and writes it to all, between two barriers that
// spin.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "apps/bench.h"
#include "apps/console.h"
#include "core/base/error.h"
#include "dist/available_cores.h"

namespace lockstep::apps {
namespace {

constexpr int64_t kLargest = 25'000'000;  // bytes
constexpr std::array<std::pair<int64_t, const char*>, 3> kSizes = {
    {{4, "4 B"}, {40'000, "40 KB"}, {kLargest, "25 MB"}}};
constexpr int kMaxBareRanks = 64;
constexpr int kSpins = 5000;

/// Memory of all ranks, made before they start.
class SharedPages {
 public:
  explicit SharedPages(int ranks)
      : ranks_(ranks), nbytes_(sizeof(Counters) + static_cast<size_t>(ranks) * kLargest) {
    base_ = ::mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    LOCKSTEP_CHECK_KIND(Io, base_ != MAP_FAILED, "bench: no shared memory of ", nbytes_,
                        " bytes: ", std::strerror(errno));
  }
  ~SharedPages() { ::munmap(base_, nbytes_); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  float* buffer(int rank) const {
    return reinterpret_cast<float*>(static_cast<char*>(base_) + sizeof(Counters) +
                                    static_cast<size_t>(rank) * kLargest);
  }

  void barrier(int rank) const {
    auto& counters = *static_cast<Counters*>(base_);
    const uint32_t mine = counters.arrived[rank].count.fetch_add(1, std::memory_order_release) + 1;
    for (int other = 0; other < ranks_; ++other) {
      const auto& count = counters.arrived[other].count;
      const auto is_behind = [&] {
        return static_cast<int32_t>(count.load(std::memory_order_acquire) - mine) < 0;
      };
      // Whoever else uses the cores may hold the one that the other rank needs.
      for (int spins = 0; is_behind(); ++spins) {
        if (spins < kSpins) {
          __builtin_ia32_pause();
        } else {
          ::sched_yield();
        }
      }
    }
  }

 private:
  struct alignas(128) Line {
    std::atomic<uint32_t> count;
  };
  struct Counters {
    Line arrived[kMaxBareRanks];
  };

  int ranks_;
  size_t nbytes_;
  void* base_;
};

/// The average over ranks of `Count` elements from `at` on, into every rank's buffer. A constant
/// count: then -O2 vectorises the loop as well.
template <int64_t Count>
void average_block(const SharedPages& pages, int ranks, float factor, int64_t at) {
  std::array<float, Count> sum{};
  for (int rank = 0; rank < ranks; ++rank) {
    const float* in = pages.buffer(rank) + at;
    for (int64_t i = 0; i < Count; ++i) sum[static_cast<size_t>(i)] += in[i] * factor;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::memcpy(pages.buffer(rank) + at, sum.data(), sizeof sum);
  }
}

/// The same for elements [begin, end), the rank's share.
void average_share(const SharedPages& pages, int ranks, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 256;  // floats that stay in the first cache for all ranks
  const float factor = 1.0f / static_cast<float>(ranks);
  int64_t at = begin;
  for (; at + kBlock <= end; at += kBlock) average_block<kBlock>(pages, ranks, factor, at);
  for (; at < end; ++at) average_block<1>(pages, ranks, factor, at);
}

double bare_seconds(dist::ProcessGroup& group, const SharedPages& pages, int64_t count,
                    double seconds) {
  const int ranks = group.world_size();
  const int64_t begin = count * group.rank() / ranks;
  const int64_t end = count * (group.rank() + 1) / ranks;
  return collective_seconds_per_call(group, seconds, [&] {
    pages.barrier(group.rank());
    average_share(pages, ranks, begin, end);
    pages.barrier(group.rank());
  });
}

}  // namespace

int bench_allreduce(const BenchOptions& options) {
  const int ranks = num_local_ranks(options.ranks);
  if (ranks > std::min(dist::available_cores(), kMaxBareRanks)) {
    Console(true).line(
        "  not measured: more ranks than cores, where a bare loop that spins stalls");
    return 0;
  }
  const SharedPages pages(ranks);
  return run_ranks(options.ranks, [&](const std::shared_ptr<dist::ProcessGroup>& group) {
    for (const auto& [nbytes, name] : kSizes) {
      const int64_t count = nbytes / static_cast<int64_t>(sizeof(float));
      const Tensor bucket = group->allocate({count}, DType::Float32);
      const double ours = collective_seconds_per_call(
          *group, options.seconds, [&] { group->all_reduce(bucket, dist::ReduceOp::Average); });
      const double bare = bare_seconds(*group, pages, count, options.seconds);
      if (group->rank() != 0) continue;
      const std::string title = concat("all-reduce of ", name, ", ", ranks, " ranks");
      print_figure({title, ours * 1e6, "us", "bare loop", bare * 1e6});
      if (nbytes < 1'000'000) continue;
      const double scale = static_cast<double>(nbytes) / 1e9;
      print_figure({"  as algorithm bandwidth", scale / ours, "GB/s", "bare loop", scale / bare});
    }
  });
}

}  // namespace lockstep::apps
