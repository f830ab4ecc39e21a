#!/usr/bin/env -S python3 -B
"""Plants bugs in CUDA sources, one at a time, and asks whether the tests on emulated GPUs notice.

  mutate.py                    every bug in kernels/ and in the host code that drives streams
  mutate.py --sample 12        a bounded choice, for CI; --seed chooses another
  mutate.py --self             the emulator's own kernels, with the emulator's own tests
  mutate.py --list             only prints the bugs

The sources are copied to build/mutants, built once in the check build, and rebuilt for each bug. A
bug that does not compile is none. Survivors that change nothing are listed, with the reason, in
survivors.txt beside this script; any other survivor makes the exit status 1.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["CMakeLists.txt", "cmake", "core", "kernels", "dist", "apps", "tests"]
DRIVES_STREAMS = re.compile(r"cuda(StreamWaitEvent|EventRecord|MemcpyAsync|StreamSynchronize)\(")
KINDS = ["emulation racecheck", "emulation initcheck", "emulation memcheck", "emulation synccheck",
         "emulation deadlock", "emulation cublas", "emulation nccl", "AddressSanitizer",
         "runtime error"]


def product_files():
    files = sorted(ROOT.glob("kernels/*.cu")) + sorted(ROOT.glob("kernels/*.cuh"))
    for folder in ("kernels", "core", "dist"):
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            if DRIVES_STREAMS.search(path.read_text()):
                files.append(path)
    return files


def copy_tree(target):
    """Brings the copy up to date. A file that is the same keeps its time, so that little is built;
    one that differs gets a new time, since what was built last may be a mutant of it."""
    wanted = set()
    for name in COPIED:
        paths = [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*")
        for path in paths:
            if not path.is_file():
                continue
            copy = target / path.relative_to(ROOT)
            wanted.add(copy)
            if not copy.exists() or copy.read_bytes() != path.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
                shutil.copymode(path, copy)
    for path in target.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


class Project:
    """A copy of the sources with a check build of its own."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.source = ROOT / "build/mutants/source"
        self.build = ROOT / "build/mutants" / ("self" if arguments.self else arguments.variant)
        copy_tree(self.source)
        self.run(["cmake", "-S", str(self.source / "tests/emulation"), "-B", str(self.build),
                  "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG"], 300)
        self.tests = self.find_tests()

    def run(self, command, timeout, **environment):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                                  env={**os.environ, **environment}, errors="replace")
        except subprocess.TimeoutExpired:
            return 124, "took too long"
        return done.returncode, done.stdout + done.stderr

    def find_tests(self):
        """The tests that run kernels: names of CTest tests, which are those of their targets."""
        stem = "(executor|runtime)" if self.arguments.self else self.arguments.tests
        pattern = f"^emulation_{stem}_{self.arguments.variant}_test$"
        _, listing = self.run(["ctest", "--test-dir", str(self.build), "-N", "-R", pattern], 60)
        names = re.findall(r"Test +#\d+: (\S+)", listing)
        if not names:
            sys.exit(f"no test matches {pattern}")
        return names

    def compile(self):
        return self.run(["ninja", "-C", str(self.build)] + self.tests, 1800)

    def test(self):
        """Returns "" when all pass, else what noticed; and the output."""
        pattern = "^(" + "|".join(self.tests) + ")$"
        status, output = self.run(["ctest", "--test-dir", str(self.build), "-R", pattern,
                                   "--stop-on-failure", "--output-on-failure", "--timeout", "120"],
                                  900, LOCKSTEP_EMU_ORDER="random", LOCKSTEP_EMU_STREAMS="jitter")
        if status == 0:
            return "", output
        for kind in KINDS:
            if kind in output:
                return kind.replace("emulation ", ""), output
        return "timeout" if "Timeout" in output else "result", output

    def try_mutant(self, mutant):
        path = self.source / mutant.path
        original = path.read_text()
        path.write_text(mutant.apply(original))
        try:
            status, _ = self.compile()
            return "does not compile" if status != 0 else self.test()[0]
        finally:
            path.write_text(original)


def read_survivors():
    path = pathlib.Path(__file__).with_name("survivors.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split("  # ")[0] for line in lines if "  # " in line}


def choose(all_mutants, arguments):
    if arguments.sample is None or arguments.sample >= len(all_mutants):
        return all_mutants
    chosen = random.Random(arguments.seed).sample(range(len(all_mutants)), arguments.sample)
    return [all_mutants[i] for i in sorted(chosen)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="plant this many bugs, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", nargs="*", help="sources, relative to the root")
    parser.add_argument("--tests", default="cuda_.*", help="regular expression of the tests' stems")
    parser.add_argument("--variant", default="check", choices=["plain", "asan", "check"])
    parser.add_argument("--self", action="store_true", help="the emulator's own kernels")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--minutes", type=float, default=60, help="stop after this time")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.files:
        files = [ROOT / name for name in arguments.files]
    elif arguments.self:
        files = [ROOT / "tests/emulation/testing/kernels.cu"]
    else:
        files = product_files()
    found = []
    for path in files:
        found += mutants.find(str(path.relative_to(ROOT)), path.read_text())
    chosen = choose(found, arguments)
    if arguments.list:
        print("\n".join(map(str, chosen)))
        return 0
    if not chosen:
        print("SKIP: no CUDA sources to plant bugs in")
        return 77
    start = time.monotonic()
    project = Project(arguments)
    status, output = project.compile()
    if status != 0:
        sys.exit("without a planted bug the build fails:\n" + output[-2000:])
    noticed, output = project.test()
    if noticed != "":
        sys.exit("without a planted bug the tests fail:\n" + output[-2000:])
    known, counts, survivors = read_survivors(), {}, []
    for mutant in chosen:
        if time.monotonic() - start > 60 * arguments.minutes:
            print(f"stopped after {arguments.minutes} minutes")
            break
        verdict = project.try_mutant(mutant)
        if verdict == "":
            verdict = "known survivor" if mutant.key() in known else "SURVIVED"
        if verdict == "SURVIVED":
            survivors.append(mutant)
        counts[verdict] = counts.get(verdict, 0) + 1
        print(f"{verdict:16} {mutant}", flush=True)
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
