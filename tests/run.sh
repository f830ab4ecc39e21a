#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests (under 5 minutes). With --all also, as CI
# does: sanitizers, fuzzers, consumers of the library, the portable binary, the emulated GPU and the
# acceptance runs. The last line is "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "$0")/.." || exit
source apps/setup.sh
source tests/parts.sh

case ${1:-} in
  "") all=false ;;
  --all) all=true ;;
  *) die "unknown argument $1; there is --all" ;;
esac

install_missing "${build_packages[@]}" "${test_packages[@]}"
if $all; then install_missing "${check_packages[@]}"; fi
build_as_invoker tests/run.sh "$@"

threaded_tests=(tests_base tests_kernels tests_dist tests_apps tests_integration)
part "release build" build_part release
part "release tests" test_part release
if $all; then
  part "dev build (address and undefined-behaviour sanitizers)" build_part dev
  part "dev tests" test_part dev
  # Operations and layers run in one thread; what has threads is below and above them.
  part "tsan build (thread sanitizer)" build_part tsan lockstep "${threaded_tests[@]}"
  part "tsan tests" test_part tsan -LE "^core$"
  part "fuzzers" fuzz_part
  for script in tests/consumer/run.sh tests/checks/portable.sh tests/checks/cuda_build.sh \
    tests/emulation/run.sh tests/acceptance/*.sh; do
    if [ -x "$script" ]; then part "$script" script_part "$script"; fi
  done
fi
close_parts
