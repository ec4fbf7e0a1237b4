"""One file per dialect: how a pod says which gang it is of, and what a group object declares."""
