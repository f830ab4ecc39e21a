"""PyTorch's side of the comparison: the same work as Lockstep's, on ranks over Gloo.

    python3 torch_ddp.py run|step|mlp|allreduce RANKS [FASHION_MNIST_DIR]

Prints one "name value" line a figure. `run` is the documented script itself: its figure is the time
of the whole process, which the caller takes, and the memory of a rank.
"""
import gzip
import os
import pathlib
import resource
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel


def report(rank, name, value):
    if rank == 0:
        print(name, value, flush=True)


def documented_step(ddp, optimizer, criterion):
    data = torch.randn(32, 1000)
    target = torch.randint(0, 10, (32,))
    optimizer.zero_grad()
    loss = criterion(ddp(data), target)
    loss.backward()
    optimizer.step()
    return loss.item()


def documented(rank, steps):
    torch.manual_seed(rank)
    ddp = DistributedDataParallel(nn.Linear(1000, 10))
    optimizer = optim.SGD(ddp.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    for _ in range(5):
        documented_step(ddp, optimizer, criterion)
    start = time.perf_counter()
    for _ in range(steps):
        documented_step(ddp, optimizer, criterion)
    return (time.perf_counter() - start) / max(steps, 1)


def run(rank, _folder):
    documented(rank, 0)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report(rank, "resident_mib", kilobytes / 1024)


def step(rank, _folder):
    report(rank, "step_us", documented(rank, 400) * 1e6)


def read_idx(path, header):
    content = gzip.decompress(path.read_bytes())
    return torch.frombuffer(bytearray(content[header:]), dtype=torch.uint8)


def mlp(rank, folder):
    """One epoch to warm up, two that count. The images lie in memory as floats: what is timed is
    the training, with batches taken by index, not a DataLoader's Python."""
    folder = pathlib.Path(folder)
    images = read_idx(folder / "train-images-idx3-ubyte.gz", 16).view(-1, 784).float()
    images = (images / 255 - 0.286) / 0.353
    labels = read_idx(folder / "train-labels-idx1-ubyte.gz", 8).long()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                          nn.Linear(128, 10))
    ddp = DistributedDataParallel(model)
    optimizer = optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    world = dist.get_world_size()
    speeds = []
    for epoch in range(3):
        generator = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(labels), generator=generator)[rank::world]
        dist.barrier()
        start = time.perf_counter()
        for begin in range(0, len(order), 64):
            index = order[begin:begin + 64]
            optimizer.zero_grad()
            criterion(ddp(images[index]), labels[index]).backward()
            optimizer.step()
        speeds.append(len(labels) / (time.perf_counter() - start))
    report(rank, "images_per_second", statistics.mean(speeds[1:]))


def allreduce(rank, _folder):
    for name, count, calls in (("40kb", 10_000, 300), ("25mb", 6_250_000, 10)):
        tensor = torch.zeros(count)
        for _ in range(3):
            dist.all_reduce(tensor)
        blocks = []
        for _ in range(5):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(tensor)
            blocks.append((time.perf_counter() - start) / calls)
        report(rank, f"allreduce_{name}_us", statistics.median(blocks) * 1e6)


def start(rank, world, port, what, folder):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    {"run": run, "step": step, "mlp": mlp, "allreduce": allreduce}[what](rank, folder)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    ranks = int(sys.argv[2])
    mp.spawn(start, (ranks, free_port(), sys.argv[1], *(sys.argv[3:] or [""])), nprocs=ranks)
