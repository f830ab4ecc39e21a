#!/usr/bin/env bash
# Kills ranks, the launcher and all at once, by the hundred: faults.py says what must hold.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
exec tests/acceptance/faults.py
