// The stream-ordered allocator: what it reuses, when pools grow and shrink, and that its counters
// do not depend on the schedule.
#include "tests/emulation/testing/harness.h"

using namespace lockstep;
using namespace lockstep::testing;
using emulation::StreamPolicy;

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int64_t kGrowth = 2 * int64_t{kMiB};  // what a pool takes at a time

struct Setup {
  cudaStream_t a = nullptr, b = nullptr;
  cudaMemPool_t pool = nullptr;
  cudaEvent_t event = nullptr;

  // A pool of its own, so that cases do not see what others left.
  explicit Setup(uint64_t release_threshold = UINT64_MAX) {
    LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    LOCKSTEP_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    LOCKSTEP_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
    LOCKSTEP_CUDA_CHECK(
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &release_threshold));
  }
  ~Setup() {
    cudaDeviceSynchronize();
    cudaMemPoolDestroy(pool);
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }

  float* allocate(size_t nbytes, cudaStream_t stream) {
    float* pointer = nullptr;
    LOCKSTEP_CUDA_CHECK(cudaMallocFromPoolAsync(&pointer, nbytes, pool, stream));
    return pointer;
  }
  uint64_t attribute(cudaMemPoolAttr which) {
    uint64_t value = 0;
    LOCKSTEP_CUDA_CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
  }
};

int64_t growths_since(const emulation::Counters& before) {
  return (emulation::counters() - before).pool_growths;
}

}  // namespace

TEST_CASE("memory freed in a stream serves the same stream at once") {
  Setup setup;
  const auto before = emulation::counters();
  for (int step = 0; step < 10; ++step) {
    float* x = setup.allocate(kMiB, setup.a);
    launch(fill, 1, 64, 0, setup.a, x, 64, 1.0f);
    LOCKSTEP_CUDA_CHECK(cudaFreeAsync(x, setup.a));
  }
  const auto difference = emulation::counters() - before;
  CHECK(difference.async_mallocs == 10);
  CHECK(difference.async_frees == 10);
  CHECK(difference.pool_growths == 1);
  CHECK(difference.pool_growth_bytes == kGrowth);
  CHECK(difference.mallocs == 0);
  CHECK(difference.synchronisations == 0);
}

TEST_CASE("another stream must be known to come later, under every schedule") {
  for (StreamPolicy policy : {StreamPolicy::Eager, StreamPolicy::Lazy, StreamPolicy::Jitter}) {
    emulation::set_stream_policy(policy);
    Setup setup;
    float* x = setup.allocate(2 * kMiB, setup.a);
    LOCKSTEP_CUDA_CHECK(cudaFreeAsync(x, setup.a));
    auto before = emulation::counters();
    float* unordered = setup.allocate(2 * kMiB, setup.b);
    CHECK(growths_since(before) == 1);
    cudaEventRecord(setup.event, setup.a);
    cudaStreamWaitEvent(setup.b, setup.event);
    before = emulation::counters();
    float* ordered = setup.allocate(2 * kMiB, setup.b);
    CHECK(growths_since(before) == 0);
    cudaFreeAsync(unordered, setup.b);
    cudaFreeAsync(ordered, setup.b);
  }
  emulation::set_stream_policy(StreamPolicy::Eager);
}

TEST_CASE("a pool keeps what its threshold allows over a synchronisation") {
  for (bool keep : {false, true}) {
    Setup setup(keep ? UINT64_MAX : 0);
    const auto before = emulation::counters();
    for (int step = 0; step < 3; ++step) {
      cudaFreeAsync(setup.allocate(kMiB, setup.a), setup.a);
      cudaStreamSynchronize(setup.a);
    }
    const auto difference = emulation::counters() - before;
    CHECK(difference.pool_growths == (keep ? 1 : 3));
    CHECK(difference.pool_shrinks == (keep ? 0 : 3));
    CHECK(setup.attribute(cudaMemPoolAttrReservedMemCurrent) == (keep ? kGrowth : 0));
    LOCKSTEP_CUDA_CHECK(cudaMemPoolTrimTo(setup.pool, 0));
    CHECK(setup.attribute(cudaMemPoolAttrReservedMemCurrent) == 0);
  }
}

TEST_CASE("accounts of a pool") {
  Setup setup;
  float* x = setup.allocate(1000, setup.a);
  float* y = setup.allocate(3 * kMiB, setup.a);
  CHECK(setup.attribute(cudaMemPoolAttrUsedMemCurrent) == 1024 + 3 * kMiB);
  CHECK(setup.attribute(cudaMemPoolAttrReservedMemCurrent) == 4 * kMiB);
  cudaFreeAsync(x, setup.a);
  CHECK(setup.attribute(cudaMemPoolAttrUsedMemCurrent) == 3 * kMiB);
  CHECK(setup.attribute(cudaMemPoolAttrUsedMemHigh) == 1024 + 3 * kMiB);
  CHECK(cudaFree(y) == cudaSuccess);  // cudaFree takes it too
  CHECK(setup.attribute(cudaMemPoolAttrUsedMemCurrent) == 0);
}

TEST_CASE("memory given back is not named again") {
  Reports reports;
  Setup setup;
  float* x = setup.allocate(1000, setup.a);
  LOCKSTEP_CUDA_CHECK(cudaFreeAsync(x, setup.a));
  CHECK(cudaFreeAsync(x, setup.a) == cudaErrorInvalidValue);
  CHECK(cudaFree(x) == cudaErrorInvalidValue);
  cudaGetLastError();
  launch(fill, 1, 64, 0, setup.a, x, 64, 1.0f);
  CHECK_REPORTED(reports, "FREED 1000-byte allocation");
}

TEST_CASE("out of memory is an error of the call") {
  Setup setup;
  size_t available = 0, total = 0;
  LOCKSTEP_CUDA_CHECK(cudaMemGetInfo(&available, &total));
  float* x = nullptr;
  CHECK(cudaMallocAsync(&x, total + kMiB, setup.a) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMallocAsync(&x, 0, setup.a) == cudaSuccess);
  CHECK(x == nullptr);
}

TEST_CASE("all memory comes back") {
  const auto before = emulation::live_memory();
  {
    Setup setup;
    for (size_t i = 1; i < 20; ++i) cudaFreeAsync(setup.allocate(i * 1000, setup.a), setup.a);
  }
  CHECK(emulation::live_memory().allocations == before.allocations);
  CHECK(emulation::live_memory().nbytes == before.nbytes);
}
