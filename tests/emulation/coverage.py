#!/usr/bin/env -S python3 -B
"""Which lines of device code the tests on emulated GPUs execute, by gcov.

  coverage.py [--at-least 95]   kernels/*.cu and kernels/*.cuh, in the check build
  coverage.py --self            the emulator's own kernels

Builds with --coverage in build/coverage-emulation, runs the tests, and prints for each file the
share of lines that were executed and the numbers of those that were not. The exit status is 1 when
the whole is below the limit.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def build_and_test(build, arguments):
    run(["cmake", "-S", ROOT / "tests/emulation", "-B", build, "-G", "Ninja",
         "-DCMAKE_BUILD_TYPE=Debug",
         "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1 --coverage", "-DCMAKE_CXX_COMPILER_LAUNCHER="])
    stem = "(executor|runtime|planted|pool|death|cublas)" if arguments.self else arguments.tests
    pattern = f"^emulation_{stem}_{arguments.variant}_test$"
    listing = run(["ctest", "--test-dir", build, "-N", "-R", pattern])
    tests = re.findall(r"Test +#\d+: (\S+)", listing)
    if not tests:
        sys.exit(f"no test matches {pattern}")
    run(["ninja", "-C", build] + tests)
    for old in build.rglob("*.gcda"):
        old.unlink()
    run(["ctest", "--test-dir", build, "-R", pattern, "--output-on-failure"])


def lines_of(build):
    """For each source: how often each of its lines ran, over all objects that contain it."""
    counts = {}
    for notes in sorted(build.rglob("*.gcno")):
        if not notes.with_suffix(".gcda").exists():
            continue
        output = run(["gcov", "--json-format", "--stdout", notes], cwd=build)
        for file in json.loads(output)["files"]:
            path = pathlib.Path(os.path.normpath(build / file["file"]))
            lines = counts.setdefault(path, {})
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--self", action="store_true", help="the emulator's own kernels")
    parser.add_argument("--variant", default="check", choices=["plain", "asan", "check"])
    parser.add_argument("--tests", default="cuda_.*", help="regular expression of the tests' stems")
    parser.add_argument("--at-least", type=float, default=95, help="percent of all lines")
    arguments = parser.parse_args()
    build = ROOT / "build/coverage-emulation" / ("self" if arguments.self else arguments.variant)
    folder = ROOT / ("tests/emulation/testing" if arguments.self else "kernels")
    if not list(folder.glob("*.cu")):
        print("SKIP: there are no .cu files")
        return 77
    build_and_test(build, arguments)
    executed, total = 0, 0
    for path, lines in sorted(lines_of(build).items()):
        if path.parent != folder or path.suffix not in (".cu", ".cuh"):
            continue
        if path.name.startswith("buggy"):  # its kernels stop where their bug is
            continue
        missed = sorted(number for number, count in lines.items() if count == 0)
        executed += len(lines) - len(missed)
        total += len(lines)
        share = 100 * (len(lines) - len(missed)) / max(1, len(lines))
        print(f"{share:6.1f} %  {path.relative_to(ROOT)}  {' '.join(map(str, missed))}")
    share = 100 * executed / max(1, total)
    print(f"{share:6.1f} %  of {total} lines, at least {arguments.at_least:g} % are asked for")
    return 0 if share >= arguments.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
