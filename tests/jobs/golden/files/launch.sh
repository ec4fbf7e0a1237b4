#!/bin/bash
set -e
export NCCL_DEBUG=WARN
N=4
# torchrun --nproc-per-node 99 old.py
torchrun --nproc-per-node "$N" train.py "$@"
