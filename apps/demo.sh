#!/usr/bin/env bash
# Installs what is missing, builds, and runs the documented training run on two ranks.
# Arguments go to `lockstep train`.
set -euo pipefail
cd "$(dirname "$0")/.."
source apps/setup.sh

install_missing "${build_packages[@]}"
build_as_invoker apps/demo.sh "$@"
build release lockstep demo lockstep_library  # the last is what `cmake --install` installs
exec build/release/lockstep train --nproc 2 "$@"
