#!/usr/bin/env bash
# Eight ranks on two cores: the documented run stays under half a second, and an all-reduce under a
# millisecond, which is less than one time slice: nobody spins while those it waits for need the core.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
binary=${LOCKSTEP_BINARY:-build/release/lockstep}

if [ "$(nproc)" -lt 2 ]; then
  echo "SKIP: oversubscription needs two cores, this process has $(nproc)"
  exit 77
fi
cores=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
  awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); ++i) print i }' | head -2 | paste -sd,)

# The median of five: wall and processor seconds of the documented run.
run_seconds() {
  local TIMEFORMAT='%R %U %S'
  for _ in 1 2 3 4 5; do
    { time taskset -c "$cores" "$binary" train --nproc 8 > /dev/null; } 2>&1
  done | sort -n | sed -n 3p
}

# Microseconds of an all-reduce of 40 KB among $1 ranks.
all_reduce_us() {
  taskset -c "$cores" "$binary" bench allreduce --nproc "$1" --seconds 0.2 |
    sed -n 's/.*all-reduce of 40 KB, [0-9]* ranks *\([0-9.]*\) us.*/\1/p'
}

read -r wall user system <<< "$(run_seconds)"
two=$(all_reduce_us 2)
eight=$(all_reduce_us 8)
echo "documented run, 8 ranks on 2 cores: $wall s (limit 0.5), processor time $user + $system s"
echo "all-reduce of 40 KB, 8 ranks on 2 cores: $eight us (limit 1000); 2 ranks: $two us"
awk -v wall="${wall:-9}" -v eight="${eight:-1e9}" 'BEGIN { exit !(wall < 0.5 && eight < 1000) }' ||
  { echo "FAILED: over a limit"; exit 1; }
