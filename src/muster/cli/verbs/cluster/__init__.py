"""Verbs about the local cluster, and the choice of the cluster."""
