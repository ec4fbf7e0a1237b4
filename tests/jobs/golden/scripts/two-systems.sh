#!/bin/bash
#SBATCH --gpus=2
#PBS -l select=1:ngpus=4
python train.py
