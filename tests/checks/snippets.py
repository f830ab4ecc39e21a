#!/usr/bin/env -S python3 -B
"""Checks the C++ in README.md and docs/: it compiles, or it is what the quoted file says.

  ```cpp                        a program (it has a main), or statements, or declarations
  ```cpp continued              more statements after the block before it
  ```cpp excerpt core/x.cpp     lines of that file; "..." stands for what is left out
"""
import pathlib
import re
import subprocess
import tempfile

import tree

BLOCK = re.compile(r"^```cpp[ ]*([^\n]*)\n(.*?)^```", re.S | re.M)
HEADER = '#include "dist/lockstep.h"\n'
FLAGS = ["c++", "-std=c++20", "-fsyntax-only", "-I.", "-x", "c++"]


def compile_error(source):
    """The first error of a translation unit, or None."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(source)
        file.flush()
        result = subprocess.run(FLAGS + [file.name], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    errors = [line.split(": ", 1)[-1] for line in result.stderr.splitlines() if "error" in line]
    return errors[0] if errors else result.stderr.strip()


def snippet_error(code):
    includes = "".join(line + "\n" for line in code.splitlines() if line.startswith("#include"))
    rest = "".join(line + "\n" for line in code.splitlines() if not line.startswith("#include"))
    start = HEADER + includes + "using namespace lockstep;\n"
    if re.search(r"^int main\(", code, re.M):
        return compile_error(includes + rest)
    as_statements = compile_error(start + "void snippet() {\n" + rest + "}\n")
    return as_statements and (compile_error(start + rest) and as_statements)


def excerpt_error(code, path):
    if not pathlib.Path(path).is_file():
        return f"there is no {path}"
    text = " ".join(pathlib.Path(path).read_text(encoding="utf-8").split())
    position = 0
    for part in re.split(r"^\s*(?://\s*)?\.\.\.\s*$", code, flags=re.M):
        wanted = " ".join(part.split())
        position = text.find(wanted, position)
        if position < 0:
            return f"{path} does not say: {part.strip().splitlines()[0]}"
        position += len(wanted)
    return None


def main():
    found, count = [], 0
    for path, text in tree.files(r"^(README\.md|docs/.*\.md)$"):
        before = ""
        for match in BLOCK.finditer(text):
            info, code = match.group(1).split(), match.group(2)
            count += 1
            if info[:1] == ["excerpt"]:
                error = excerpt_error(code, info[1])
            else:
                before = before + code if info[:1] == ["continued"] else code
                error = snippet_error(before)
            if error:
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: {error}")
    tree.finish(f"snippets: {count}", found)


if __name__ == "__main__":
    main()
