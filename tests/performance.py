#!/usr/bin/env python3
"""Runs Lockstep, PyTorch and OpenMPI on the same work, one after the other, and prints one table.

    tests/performance.py LOCKSTEP_BINARY     (tests/performance.sh builds it and calls this)

Each of Lockstep's figures stands beside the limit that `lockstep bench` measured in the same run.
PyTorch and OpenMPI are left out, with a line that says so, where they are not installed.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
TORCH_PYTHONS = ("/usr/bin/python3", sys.executable)  # Debian's packages belong to the first


def output(command, timeout=300):
    # One thread a rank, as Lockstep has on two cores.
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                          env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def bench(binary, *arguments):
    """{name: (value, limit or None, unit)} of the lines of `lockstep bench`."""
    text = output([binary, "bench", *arguments])
    print(f"\n$ lockstep bench {' '.join(arguments)}\n{text}", end="", flush=True)
    figures = {}
    for line in text.splitlines():
        if not line.startswith("  "):
            continue
        numbers = re.search(r"([\d.]+) (\S+)(?: {2,}.*? ([\d.]+) \S+ +[\d.]+ of it)?\s*$",
                            line[46:])
        limit = float(numbers[3]) if numbers[3] else None
        figures.setdefault(line[:46].strip(), (float(numbers[1]), limit, numbers[2]))
    return figures


def figure_of(figures, start):
    return next(value for name, value in figures.items() if name.startswith(start))


def pairs(text):
    """{name: value} of "name value" lines."""
    return {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.e+-]+)$", text, re.M)}


def median_seconds(command, runs):
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        output(command)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def train_speed(binary):
    """Images a second, from the epochs after the first."""
    text = output([binary, "train", "--data", "fashion-mnist", "--model", "mlp:784,256,128,10",
                   "--nproc", "2", "--batch-size", "64", "--lr", "0.05", "--momentum", "0.9",
                   "--epochs", "7", "--eval-every", "0"])
    speeds = [float(found.replace(",", "")) for found in re.findall(r"images/s: ([\d,]+)", text)]
    return statistics.median(speeds[1:])


def measure_torch():
    """PyTorch's figures, or {} where there is no PyTorch."""
    for python in TORCH_PYTHONS:
        if subprocess.run([python, "-c", "import torch"], capture_output=True,
                          check=False).returncode == 0:
            break
    else:
        print("PyTorch is left out: python3-torch is not installed")
        return {}
    script = [python, str(HERE / "performance" / "torch_ddp.py")]
    figures = pairs(output(script + ["run", "2"]))
    figures["seconds"] = median_seconds(script + ["run", "2"], 3)
    for what in (["step", "2"], ["mlp", "2", FASHION_MNIST], ["allreduce", "2"]):
        figures |= pairs(output(script + what))
    return figures


def measure_mpi():
    """OpenMPI's figures, or {} where there is none."""
    if not shutil.which("mpicxx") or not shutil.which("mpirun"):
        print("OpenMPI is left out: openmpi-bin and libopenmpi-dev are not installed")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "mpi_allreduce")
        output(["mpicxx", "-O2", str(HERE / "performance" / "mpi_allreduce.cpp"), "-o", program])
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return pairs(output(["mpirun", *root, "--oversubscribe", "-n", "2", program]))


def microseconds(figures, name):
    return f"{figures[name]:.0f} us" if name in figures else ""


def bandwidth(figures, name):
    return f"{25_000 / figures[name]:.1f} GB/s" if name in figures else ""


def rows(ours, eight, speed, torch, mpi):
    """(what, Lockstep, its limit in the same run, target, PyTorch, OpenMPI)"""
    run, empty, _ = figure_of(ours, "documented run")
    resident = figure_of(ours, "its largest process")[0]
    step, products, _ = figure_of(ours, "documented step")
    mlp, bound, _ = figure_of(ours, "MLP 784")
    small, small_bare, _ = figure_of(ours, "all-reduce of 40 KB")
    large, large_bare, _ = figure_of(ours, "as algorithm bandwidth")
    linear, blas, _ = figure_of(ours, "linear 2048")
    eight_run, _, _ = figure_of(eight, "documented run, 8 ranks")

    def of(key, text):
        return text(torch[key]) if key in torch else ""

    yield ("documented run, 2 ranks, whole process", f"{run:.1f} ms",
           f"an empty program: {empty:.1f} ms", "< 20 ms",
           of("seconds", lambda s: f"{s:.1f} s"), "")
    yield ("one step of it, data included", f"{step:.0f} us",
           f"its matrix products: {products:.0f} us", "< 125 us",
           of("step_us", lambda us: f"{us:.0f} us"), "")
    yield ("resident memory of a rank", f"{resident:.1f} MiB", "", "< 12 MB",
           of("resident_mib", lambda m: f"{m:.0f} MiB"), "")
    yield ("MLP 784-256-128-10, batch 64 a rank", f"{mlp:,.0f} images/s",
           f"its matrix products: {bound:,.0f}, {mlp / bound:.2f} of it",
           "> 100,000 and >= 0.75 of it", "", "")
    yield ("the same on Fashion-MNIST, by `lockstep train`", f"{speed:,.0f} images/s", "",
           "> 100,000", of("images_per_second", lambda n: f"{n:,.0f} images/s"), "")
    yield ("all-reduce of 40 KB", f"{small:.1f} us",
           f"a bare loop: {small_bare:.1f} us, {small / small_bare:.2f} times it",
           "<= 4 times it", microseconds(torch, "allreduce_40kb_us"),
           microseconds(mpi, "allreduce_40kb_us"))
    yield ("all-reduce of 25 MB", f"{large:.1f} GB/s",
           f"a bare loop: {large_bare:.1f} GB/s, {large / large_bare:.2f} of it",
           ">= 0.8 of it", bandwidth(torch, "allreduce_25mb_us"),
           bandwidth(mpi, "allreduce_25mb_us"))
    yield ("linear 2048 x 2048, forward and backward", f"{linear:.0f} GFLOP/s",
           f"the bare BLAS: {blas:.0f}, {linear / blas:.2f} of it", ">= 0.95 of it", "", "")
    yield ("documented run, 8 ranks on 2 cores", f"{eight_run:.0f} ms", "", "< 500 ms", "", "")


def main():
    binary = sys.argv[1]
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} (of other work: none "
          "would be best)")
    ours = bench(binary, "--nproc", "2")
    eight = bench(binary, "startup", "--nproc", "8")
    speed = train_speed(binary)
    torch = measure_torch()
    mpi = measure_mpi()
    print("\n| what, 2 ranks | Lockstep | its limit, same run | target | PyTorch, Gloo | OpenMPI |")
    print("|---|---|---|---|---|---|")
    for row in rows(ours, eight, speed, torch, mpi):
        print("| " + " | ".join(row) + " |")
    print(f"\nload average at the end: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
