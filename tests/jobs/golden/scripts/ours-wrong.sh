#!/bin/bash
#tutti: gpu = 4
#tutti: tmie = 8h
python train.py
