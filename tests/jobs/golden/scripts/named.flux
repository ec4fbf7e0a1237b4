#!/bin/sh
# flux: -N 2 --nslots=8 --cores-per-slot=4
# flux: -g 1 -t 1.5h
# flux: --job-name="my run" --begin-time=+2h
flux run -n 8 ./app
