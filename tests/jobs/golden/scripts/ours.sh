#!/bin/bash
#tutti: name = night-run
#tutti: gpus = 4
#tutti: time = 8h
#tutti: --on-loss repair --env MODE=fast
torchrun --nproc-per-node 4 train.py
