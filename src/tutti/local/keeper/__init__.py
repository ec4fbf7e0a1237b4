"""The keeper: one small process per gang that is the parent of its members and outlives the daemon.

Standard library only, Python 3.10 or later. It imports nothing of ours but `train.agent`.
"""
