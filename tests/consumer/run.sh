#!/usr/bin/env bash
# Builds and runs a ten-line user of the library in each of the four ways: find_package and
# add_subdirectory, static and shared.
set -euo pipefail
cd "$(dirname "$0")/../.."
source_dir=$PWD
work=$PWD/build/consumer
rm -rf "$work"
mkdir -p "$work"

# The flags of the release preset, so that ccache has every object already.
settings=(-G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG"
  -DLOCKSTEP_WERROR=ON)
quietly() { "$@" > "$work/log" 2>&1 || { tail -40 "$work/log"; echo "FAILED: $*"; exit 1; }; }

use() { # NAME SETTING...: configures, builds and runs the consumer
  local name=$1
  shift
  quietly cmake -S tests/consumer -B "$work/$name" "${settings[@]}" "$@"
  quietly cmake --build "$work/$name"
  printf '%-24s ' "$name"
  "$work/$name/consumer"
}

for kind in static shared; do
  shared=$([ $kind = shared ] && echo ON || echo OFF)
  quietly cmake -S . -B "$work/build_$kind" "${settings[@]}" -DBUILD_SHARED_LIBS="$shared" \
    -DLOCKSTEP_BUILD_APPS=OFF -DLOCKSTEP_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$work/installed_$kind"
  quietly cmake --build "$work/build_$kind"
  quietly cmake --install "$work/build_$kind"
  use "find_package_$kind" -DCMAKE_PREFIX_PATH="$work/installed_$kind"
  use "add_subdirectory_$kind" -DLOCKSTEP_SOURCE="$source_dir" -DBUILD_SHARED_LIBS="$shared"
done
