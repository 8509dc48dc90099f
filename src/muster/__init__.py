"""Muster: gang-scheduled distributed training, on one machine and on any Kubernetes cluster."""

__version__ = "0.1.0"
