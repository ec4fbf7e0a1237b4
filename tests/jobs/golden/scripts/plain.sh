#!/bin/bash
set -euo pipefail
cd "$(dirname "$0")"
export CUDA_DEVICE_MAX_CONNECTIONS=1
python -m torch.distributed.run --nproc_per_node=${NGPU:-2} train.py "$@"
