"""The controllers of Deployments and ReplicaSets."""
