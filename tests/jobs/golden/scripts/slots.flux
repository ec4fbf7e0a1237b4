#!/bin/bash
# flux: -N 2 -n 8
# flux: --cores-per-slot=4 --gpus-per-slot=1
# flux: -t 1h --queue=batch
# flux: --job-name=probe
flux run -n8 ./hello
