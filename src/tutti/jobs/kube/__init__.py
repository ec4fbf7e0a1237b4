"""Kubernetes pods and groups of every dialect, as the engine's gangs. Pure: the same for a cluster and for files."""
