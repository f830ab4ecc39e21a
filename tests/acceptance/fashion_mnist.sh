#!/usr/bin/env bash
# Fashion-MNIST: at least 0.89 test accuracy after the last of 15 epochs, for each of three seeds
# (published for this network: 0.8833).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/acceptance/accuracy.sh

data=/usr/share/datasets/fashion-mnist
if [ ! -e "$data/train-images-idx3-ubyte.gz" ]; then
  echo "SKIP: no $data; on Debian, apt-get install dataset-fashion-mnist"
  exit 77
fi
status=0
for seed in 0 1 2; do
  train_reaches 0.89 --data fashion-mnist --model mlp:784,256,128,100,10 --nproc 2 \
    --batch-size 64 --epochs 15 --lr 0.05 --momentum 0.9 --weight-decay 0.0005 \
    --schedule cosine --seed "$seed" || status=1
done
exit $status
