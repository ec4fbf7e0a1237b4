#!/bin/bash
#flux: --nodes=4
#flux: --gpus-per-node=8
#flux: -t 30 --urgency=20
#flux: --dependency=afterok:f123
#flux: --signal=USR2@2m
torchrun --nnodes 4 --nproc-per-node 8 train.py
