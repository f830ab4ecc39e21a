#!/usr/bin/env bash
# Lockstep's figures with their limits, and beside them PyTorch's (Debian's python3-torch) and
# OpenMPI's, measured here in one run and printed as a table. Installs what is missing; asserts no
# time, because a busy machine would fail it: look at the load that it prints.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
source apps/setup.sh

install_missing "${build_packages[@]}" python3:python3 python3-torch openmpi-bin:mpirun \
  libopenmpi-dev:mpicxx dataset-fashion-mnist
build_as_invoker tests/performance.sh "$@"
build release lockstep > build/performance-build.log 2>&1 || die "see build/performance-build.log"
exec python3 tests/performance.py build/release/lockstep "$@"
