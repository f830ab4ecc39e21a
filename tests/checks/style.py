#!/usr/bin/env -S python3 -B
"""Checks the habits that clang-format cannot: conditionals, left-over work, words of elsewhere.

- Preprocessor conditionals: CMake chooses files, so only the listed headers have any.
- No notes of unfinished work and no commented-out code.
- The tree speaks of the project alone: no paths of one machine, no package hosts, no tracker.
- Every source file opens with a comment that says what it is.
"""
import re

import tree

CONDITIONALS_ALLOWED = re.compile(
    r"^core/base/(sanitizer|version)\.h$|^kernels/launch\.cuh$|^tests/emulation/"
)
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
COMMENTED_CODE = re.compile(
    r"^\s*//\s*(return\b.*;|if \(.*[{;]|for \(.*[{;]|while \(.*[{;]|(const )?(auto|int|float|double|"
    r"int64_t|std::\w+) \w+ ?[=({].*;|#include )\s*$"
)
WORDS = [re.compile(pattern) for pattern in (
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b",
    r"(?<![\w.$}/])/(wo" r"rk|ho" r"me|ro" r"ot)/",
    r"(?i)\bissues? #?\d",
    r"https?://[\w.]*(debian\.org|ubuntu\.com|pypi\.org|pythonhosted\.org)",
)]
SOURCE = re.compile(r"\.(h|cpp|cu|cuh)$")
TEXT = re.compile(r"\.(h|cpp|cu|cuh|py|sh|cmake|txt|md|json)$|(^|/)run$")


def problems_of(path, text):
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}: "
        if SOURCE.search(path):
            if CONDITIONAL.match(line) and not CONDITIONALS_ALLOWED.search(path):
                yield where + "a preprocessor conditional; let CMake choose a file"
            if COMMENTED_CODE.match(line):
                yield where + "commented-out code"
        for word in WORDS:
            match = word.search(line)
            if match:
                yield where + f"{match.group()!r} does not belong in the tree"
    if SOURCE.search(path) and lines and not lines[0].startswith(("//", "/*")):
        yield f"{path}:1: no opening comment that says what this file is"


def main():
    found, count = [], 0
    for path, text in tree.files(TEXT):
        count += 1
        found += problems_of(path, text)
    tree.finish(f"style: {count} files", found)


if __name__ == "__main__":
    main()
