// OpenMPI's side of the comparison: MPI_Allreduce of the sizes that `lockstep bench` measures, the
// median of eleven blocks. Built and started by tests/performance.py.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace {

constexpr int kBlocks = 11;

struct Size {
  const char* name;
  int count;
  int calls;  ///< a block
};

double seconds_per_call(const Size& size) {
  std::vector<float> in(static_cast<size_t>(size.count));
  std::vector<float> out(in.size());
  std::array<double, kBlocks> blocks{};
  for (double& block : blocks) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int call = 0; call < size.calls; ++call) {
      MPI_Allreduce(in.data(), out.data(), size.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    block = (MPI_Wtime() - start) / size.calls;
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks[kBlocks / 2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const Size& size :
       {Size{"4b", 1, 20'000}, Size{"40kb", 10'000, 2000}, Size{"25mb", 6'250'000, 10}}) {
    const double seconds = seconds_per_call(size);
    if (rank == 0) std::printf("allreduce_%s_us %.3f\n", size.name, seconds * 1e6);
  }
  MPI_Finalize();
  return 0;
}
