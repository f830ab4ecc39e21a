#!/usr/bin/env bash
# Compiles the CUDA sources with nvcc, warnings being errors, and asserts what can be known without
# a GPU: no kernel spills registers, and nvcc and the emulation compile the same files. Skipped (77)
# without nvcc, unless LOCKSTEP_REQUIRE_NVCC=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/cuda
log=build/cuda.log
mkdir -p build

if ! command -v "${CUDACXX:-nvcc}" > /dev/null; then
  echo "SKIP: nvcc was not found"
  if [ "${LOCKSTEP_REQUIRE_NVCC:-0}" = 1 ]; then exit 1; fi
  exit 77
fi
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=ON > "$log" 2>&1 ||
  { cat "$log"; exit 1; }
# All of it: what ptxas says is printed only by what is compiled now.
ninja -C "$build" -t clean lockstep_cuda_kernels > "$log"
ninja -C "$build" lockstep_cuda_kernels > "$log" 2>&1 || { grep -v ptxas "$log" | tail -60; exit 1; }

functions=$(grep -c "Compiling entry function" "$log" || true)
spills=$(grep -cE "[1-9][0-9]* bytes spill (stores|loads)" "$log" || true)
most=$(grep -oE "Used [0-9]+ registers" "$log" | grep -oE "[0-9]+" | sort -n | tail -1)
echo "$functions kernels compiled, $spills with spills, at most $most registers"
if [ "$functions" = 0 ]; then
  echo "nvcc compiled no kernel"
  exit 1
fi
if [ "$spills" != 0 ]; then
  grep -E -B2 "[1-9][0-9]* bytes spill (stores|loads)" "$log"
  exit 1
fi

# The CUDA sources that a build folder compiles.
list_of() {
  ninja -C "$1" -t targets all | grep -oE "kernels/[a-z0-9_]+\.cu\.o" | sort -u
}
emulation=build/emulation-tests
cmake -S tests/emulation -B "$emulation" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo > /dev/null
if ! diff <(list_of "$build") <(list_of "$emulation" | grep -v testing); then
  echo "nvcc (<) and the emulation (>) compile different CUDA sources"
  exit 1
fi
echo "nvcc and the emulation compile the same $(list_of "$build" | wc -l) CUDA sources"
