#!/usr/bin/env -S python3 -B
"""Plants a violation of every rule and asserts that its check reports it (and only then)."""
import layers
import sizes
import style

LONG_FUNCTION = "int f(int a,\n      int b) {\n" + "  a += b;\n" * 57 + "  return a;\n}\n"
CASES = [
    (layers, "core/base/x.h", '#pragma once\n#include "core/tensor.h"\n', "core/base may not"),
    (layers, "kernels/x.cpp", '#include "core/tensor.h"\n', "kernels may not"),
    (layers, "core/x.cpp", '#include "dist/store.h"\n', "core may not"),
    (layers, "dist/x.cpp", '#include "kernels/gemm.h"\n', "dist may not"),
    (layers, "dist/x.cpp", '#include "tests/util.h"\n', "dist may not"),
    (layers, "core/x.cpp", '#include "tensor.h"\n', "not relative"),
    (layers, "core/x.h", "#pragma once\n#include <nlohmann/json.hpp>\n", "in a header"),
    (layers, "core/x.h", "int f();\n", "no #pragma once"),
    (style, "core/x.cpp", "// X.\n#ifdef __AVX2__\n#endif\n", "conditional"),
    (style, "core/x.cpp", "// X.\n// return x + 1;\n", "commented-out"),
    (style, "core/x.cpp", "// X.\nint a;  // TO" "DO: b\n", "does not belong"),
    (style, "core/x.cpp", "// X.\nopen(\"/wo" "rk/data\");\n", "does not belong"),
    (style, "core/x.cpp", "int a;\n", "opening comment"),
    (sizes, "core/x.cpp", "int a;\n" * 401, "401 lines"),
    (sizes, "core/x.cpp", "namespace a {\nclass B {\n" + LONG_FUNCTION + "};\n}\n", "x.cpp:3: "),
    (sizes, "core/x.cpp", 'auto s = R"({)";\n' + LONG_FUNCTION, "a function of 61"),
]
CLEAN = [
    (layers, "core/x.h", '#pragma once\n#include <vector>\n#include "kernels/gemm.h"\n'),
    (layers, "core/x.cpp", "#include <nlohmann/json.hpp>\n#include <zlib.h>\n"),
    (style, "core/base/sanitizer.h", "// X.\n#if 1\n#endif\n// if a row is empty; nothing.\n"),
    (sizes, "core/x.cpp", LONG_FUNCTION.replace("  return a;\n", "")),
    (sizes, "core/x.cpp", "struct A {\n" + "  int f(int a) { return a; }\n" * 61 + "};\n"),
]


def problems(check, path, text):
    return list(check.problems_of(path, text, []) if check is sizes else check.problems_of(path, text))


def main():
    for check, path, text, expected in CASES:
        found = problems(check, path, text)
        assert len(found) == 1 and expected in found[0], (check.__name__, path, text, found)
    for check, path, text in CLEAN:
        assert not problems(check, path, text), (check.__name__, path, problems(check, path, text))
    print(f"selftest: {len(CASES)} planted violations reported, {len(CLEAN)} clean files passed")


if __name__ == "__main__":
    main()
