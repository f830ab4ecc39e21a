#!/usr/bin/env bash
# The emulated GPU, as a part of tests/run.sh --all: the emulator's own tests in its three builds,
# then again with other schedules and orders of threads. Skipped (77) without NVIDIA's headers,
# unless LOCKSTEP_REQUIRE_EMULATION=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/emulation-tests
mkdir -p build

cmake -S tests/emulation -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo > "$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
if grep -q "CUDA emulation: left out" "$build.log"; then
  grep "CUDA emulation: left out" "$build.log" | sed 's/^-- /SKIP: /'
  if [ "${LOCKSTEP_REQUIRE_EMULATION:-0}" = 1 ]; then exit 1; fi
  exit 77
fi
ninja -C "$build" emulation_tests > "$build.log" || { tail -40 "$build.log"; exit 1; }
run() {
  ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error > "$build.log" ||
    { cat "$build.log"; exit 1; }
  grep "tests passed" "$build.log"
}
run
for seed in 1 2 3; do
  echo "again: random order of threads, jitter between streams, seed $seed"
  LOCKSTEP_EMU_ORDER=random LOCKSTEP_EMU_STREAMS=jitter LOCKSTEP_EMU_SEED=$seed run
done
echo "again: descending order of threads, lazy streams"
LOCKSTEP_EMU_ORDER=descending LOCKSTEP_EMU_STREAMS=lazy run
