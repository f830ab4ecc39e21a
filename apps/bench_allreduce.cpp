// All-reduce through the engine, and beside it the least that any engine must do: each rank
// averages its share of all ranks' buffers in shared memory and writes it to all, between two
// barriers that spin; and memcpy of as many bytes.
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "apps/bench.h"
#include "core/base/error.h"
#include "kernels/rank_reduce.h"

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

/// The rank's share of the average, from every rank's buffer into every rank's buffer.
void average_share(const SharedPages& pages, int rank, int ranks, int64_t count) {
  const int64_t begin = count * rank / ranks;
  std::array<void*, kMaxBareRanks> buffers;
  for (int other = 0; other < ranks; ++other) {
    buffers[static_cast<size_t>(other)] = pages.buffer(other) + begin;
  }
  kernels::cpu::rank_reduce<float>(buffers.data(), buffers.data(), ranks, ranks,
                                   count * (rank + 1) / ranks - begin,
                                   kernels::RankReduceOp::Average);
}

void bench_size(dist::ProcessGroup& group, const SharedPages& pages, int64_t nbytes,
                const std::string& name, double seconds) {
  const int rank = group.rank();
  const int ranks = group.world_size();
  const int64_t count = nbytes / static_cast<int64_t>(sizeof(float));
  const Tensor bucket = group.allocate({count}, DType::Float32);
  const Tensor copy = zeros({count});
  const auto times = collective_seconds_per_call(
      group, seconds,
      {[&] { group.all_reduce(bucket, dist::ReduceOp::Average); },
       [&] {
         pages.barrier(rank);
         average_share(pages, rank, ranks, count);
         pages.barrier(rank);
       },
       [&] { std::memcpy(copy.raw_data(), bucket.raw_data(), static_cast<size_t>(nbytes)); }});
  if (rank != 0) return;
  const double ours = times[0], bare = times[1], memcpy = times[2];
  print_figure({concat("all-reduce of ", name, ", ", ranks, " ranks"), ours * 1e6, "us",
                "bare loop", bare * 1e6});
  if (nbytes < 1000) return;
  print_figure({"", ours * 1e6, "us", "memcpy by each rank", memcpy * 1e6});
  if (nbytes < 1'000'000) return;
  const double gigabytes = static_cast<double>(nbytes) / 1e9;
  print_figure(
      {"  as algorithm bandwidth", gigabytes / ours, "GB/s", "bare loop", gigabytes / bare});
}

}  // namespace

int bench_allreduce(const BenchOptions& options) {
  const int ranks = num_local_ranks(options.ranks);
  LOCKSTEP_CHECK_KIND(Usage, ranks <= kMaxBareRanks, "bench: --nproc ", ranks, " is more than the ",
                      kMaxBareRanks, " ranks that can be measured");
  const SharedPages pages(ranks);
  return run_ranks(options.ranks, [&](const std::shared_ptr<dist::ProcessGroup>& group) {
    for (const auto& [nbytes, name] : kSizes) {
      bench_size(*group, pages, nbytes, name, options.seconds);
    }
  });
}

}  // namespace lockstep::apps
