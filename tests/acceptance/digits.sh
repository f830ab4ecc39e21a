#!/usr/bin/env bash
# Handwritten digits (embedded in the binary): at least 0.95 of the test split after the last epoch.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/acceptance/accuracy.sh

train_reaches 0.95 --data digits --model mlp:64,64,10 --nproc 2 --batch-size 16 --epochs 30 \
  --lr 0.1 --momentum 0.9 --schedule cosine --seed 0
