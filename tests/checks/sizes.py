#!/usr/bin/env -S python3 -B
"""Checks that a file fits in the head: 400 lines at most, and 60 for a function.

Functions are found by their braces: at namespace or class scope, a block whose head has a
parenthesis is a function. Comments, strings and preprocessor lines are blanked first.
"""
import re

import tree

MAX_FILE = 400
MAX_FUNCTION = 60
BLANKED = re.compile(
    r'R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.S | re.M,
)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def blank(text):
    """The text with comments, literals and directives replaced, line numbers kept."""
    return BLANKED.sub(lambda m: "\n" * m.group().count("\n") or '""', text)


def functions(text):
    """Yields (first line, length) of every function body with its head."""
    text, stack, head_start, line = blank(text), [], 0, 1
    for position, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "{":
            head = text[head_start:position]
            outer = not stack or stack[-1][0] == "scope"
            if not outer:
                kind = "inner"
            elif "(" in head and not re.search(r"=\s*$", head) and not is_scope(head):
                kind = "function"
            elif is_scope(head):
                kind = "scope"
            else:
                kind = "inner"
            first = line - head.lstrip().count("\n")
            stack.append((kind, first))
            head_start = position + 1
        elif char == "}" and stack:
            kind, first = stack.pop()
            if kind == "function":
                yield first, line - first + 1
            head_start = position + 1
        elif char == ";":
            head_start = position + 1


def is_scope(head):
    """namespace X, struct X : Y, ...; but not `struct X f(int)`."""
    return bool(SCOPE.search(head)) and not re.search(r"\)\s*(const|noexcept|override|->|$)", head)


def problems_of(path, text, longest):
    lines = text.count("\n")
    if lines > MAX_FILE:
        yield f"{path}: {lines} lines, at most {MAX_FILE}"
    if re.search(r"\.(h|cpp|cu|cuh)$", path):
        for first, length in functions(text):
            longest.append((length, f"{path}:{first}"))
            if length > MAX_FUNCTION:
                yield f"{path}:{first}: a function of {length} lines, at most {MAX_FUNCTION}"


def main():
    found, count, functions_seen = [], 0, []
    for path, text in tree.files(r"\.(h|cpp|cu|cuh|py|sh|cmake)$"):
        count += 1
        found += problems_of(path, text, functions_seen)
    length, where = max(functions_seen, default=(0, "none"))
    tree.finish(f"sizes: {count} files, {len(functions_seen)} functions, the longest {length} lines "
                f"({where})", found)


if __name__ == "__main__":
    main()
