#!/usr/bin/env python3
"""After the fuzzers have run: were at least 95% of the lines of the parsers reached?

A fuzzer names the files that it is for, in comment lines "// Covers: core/data/x.cpp".
"""
import glob
import json
import pathlib
import re
import shutil
import subprocess
import sys

LEAST = 95.0
BUILD = "build/fuzz"


def tool(name):
    return shutil.which(f"{name}-14") or shutil.which(name) or sys.exit(f"FAILED: no {name}")


def line_coverage(binaries, raw_profiles):
    """{root-relative file: (lines, lines reached)} over all fuzzers together."""
    merged = f"{BUILD}/merged.profdata"
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", *raw_profiles, "-o", merged], check=True)
    objects = [binaries[0]] + [f"--object={binary}" for binary in binaries[1:]]
    text = subprocess.run([tool("llvm-cov"), "export", "--summary-only", f"--instr-profile={merged}",
                           *objects], check=True, capture_output=True, text=True).stdout
    root = str(pathlib.Path.cwd()) + "/"
    return {file["filename"].removeprefix(root):
            (file["summary"]["lines"]["count"], file["summary"]["lines"]["covered"])
            for file in json.loads(text)["data"][0]["files"]}


def main():
    sources = sorted(glob.glob("tests/fuzz/*_fuzz.cpp"))
    names = [pathlib.Path(source).stem for source in sources]
    covered = line_coverage([f"{BUILD}/tests/{name}" for name in names],
                            [f"{BUILD}/{name}.profraw" for name in names])
    failed = False
    for source in sources:
        files = re.findall(r"^// Covers: (\S+)$", pathlib.Path(source).read_text(encoding="utf-8"), re.M)
        if not files:
            print(f"FAILED: {source} does not say which files it covers")
            failed = True
        for file in files:
            lines, reached = covered.get(file, (1, 0))
            percent = 100.0 * reached / max(lines, 1)
            good = percent >= LEAST
            failed = failed or not good
            print(f"{file}: {reached} of {lines} lines, {percent:.1f}% (at least {LEAST:.0f}%)"
                  + ("" if good else " FAILED"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
