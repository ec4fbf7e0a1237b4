"""The pages over the API: a TCP port of this machine, its guard, hand-written files. Nothing is built."""
