// The documented PyTorch script, line by line; the Python stands on the right.
#include <charconv>
#include <cstdio>

#include "core/nn/layers.h"
#include "core/optim/optimizer.h"
#include "core/random.h"
#include "dist/distributed_data_parallel.h"
#include "dist/launcher.h"

using namespace lockstep;

namespace {

constexpr int kWorldSize = 2;
constexpr uint64_t kSeed = 0;

// print(f"Epoch {epoch}, Loss: {loss.item()}"): the shortest digits that give the same double.
void print_epoch(int epoch, double loss) {
  char digits[32];
  *std::to_chars(digits, digits + sizeof digits - 1, loss).ptr = '\0';
  std::printf("Epoch %d, Loss: %s\n", epoch, digits);
}

int train(const dist::LaunchedRank& self) {  // def train(rank, world_size):
  auto process_group = dist::init_process_group({.backend = "nccl"});  // init_process_group("nccl")
  const Device device = process_group->device();          // torch.cuda.set_device(rank)
  manual_seed(kSeed + static_cast<uint64_t>(self.rank));  // torch.manual_seed(0 + rank)

  nn::Linear model(1000, 10);                               // model = nn.Linear(1000, 10)
  model.to(device);                                         // model.to(rank)
  dist::DistributedDataParallel ddp(model, process_group);  // ddp = DDP(model, [rank])
  optim::SGD optimizer(ddp.parameters(), {.lr = 0.01});     // SGD(ddp.parameters(), lr=0.01)
  nn::CrossEntropyLoss criterion;                           // criterion = nn.CrossEntropyLoss()

  for (int epoch = 0; epoch < 5; ++epoch) {               // for epoch in range(5):
    Tensor data = randn({32, 1000}).to(device);           //   data = torch.randn(32, 1000).to(rank)
    Tensor target = randint(0, 10, {32}).to(device);      //   target = torch.randint(0, 10, (32,))
    optimizer.zero_grad();                                //   optimizer.zero_grad()
    Tensor loss = criterion(ddp(data), target);           //   loss = criterion(ddp(data), target)
    loss.backward();                                      //   loss.backward()
    optimizer.step();                                     //   optimizer.step()
    if (self.rank == 0) print_epoch(epoch, loss.item());  // if rank == 0: print(...)
  }
  return 0;
}

}  // namespace

int main() {  // mp.spawn(train, args=(world_size,), nprocs=world_size)
  return dist::launch({.num_ranks = kWorldSize}, train).exit_status;
}
