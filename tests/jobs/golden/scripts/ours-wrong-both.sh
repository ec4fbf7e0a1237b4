#!/bin/bash
#tutti: workrs = 2
#tutti: --gpu 4
python train.py
