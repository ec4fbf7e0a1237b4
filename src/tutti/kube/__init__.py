"""The scheduler for a real Kubernetes cluster."""
