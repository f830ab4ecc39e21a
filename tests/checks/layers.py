#!/usr/bin/env -S python3 -B
"""Checks every #include line against the layers, and every header for third-party includes.

A layer may include itself and the layers listed for it, nothing else of ours. Headers of ours
include only the standard library, the system's own headers and ours, so that a user of the library
needs no other library's headers and a change costs little compile time. (tests/emulation stands in
for NVIDIA's headers, so it has include paths of its own.)
"""
import re

import tree

MAY_INCLUDE = {
    "core/base": ["core/base"],
    "kernels": ["core/base", "kernels"],
    "core": ["core/base", "core", "kernels"],
    "dist": ["core/base", "core", "dist"],
    "apps": ["core/base", "core", "kernels", "dist", "apps", "lockstep"],
}
OURS = ["core", "kernels", "dist", "apps", "tests", "lockstep"]
STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
cinttypes climits clocale cmath codecvt compare complex concepts condition_variable coroutine
csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque
exception execution filesystem format forward_list fstream functional future initializer_list
iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string
string_view strstream syncstream system_error thread tuple type_traits typeindex typeinfo
unordered_map unordered_set utility valarray variant vector version
""".split())
SYSTEM = re.compile(
    r"^(sys/|linux/|netinet/|arpa/|asm/)|^(unistd|fcntl|poll|pthread|signal|sched|netdb|"
    r"immintrin|dlfcn|errno|spawn|termios)\.h$"
)
# The CUDA side of kernels/: device code needs NVIDIA's headers.
CUDA_HEADER = re.compile(r"\.cuh$|/(cublas|nccl|cudart)_api\.h$")


def layer_of(path):
    """The layer of a root-relative path, or None for files outside the layers."""
    if path.startswith("core/base/"):
        return "core/base"
    top = path.split("/")[0]
    return top if top in MAY_INCLUDE else None


def problems_of(path, text):
    layer = layer_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{path}:{number}: "
        ours = name.split("/")[0] in OURS
        if quote == '"' and not ours and not path.startswith("tests/emulation/"):
            yield where + f'"{name}" is not relative to the root of the tree'
        elif layer and ours:
            target = layer_of(name) or name.split("/")[0]
            if target not in MAY_INCLUDE[layer]:
                yield where + f"{layer} may not include {name} (allowed: {MAY_INCLUDE[layer]})"
        elif layer and path.endswith((".h", ".cuh")) and not CUDA_HEADER.search(path):
            if name not in STANDARD and not SYSTEM.search(name):
                yield where + f"<{name}> in a header: third-party headers belong in .cpp files"
    if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", text, re.M):
        yield f"{path}: no #pragma once"


def main():
    found, count = [], 0
    for path, text in tree.files(r"\.(h|cpp|cu|cuh)$"):
        count += 1
        found += problems_of(path, text)
    tree.finish(f"layers: {count} files", found)


if __name__ == "__main__":
    main()
