"""Nodes that stop answering: heartbeats, taints, eviction of their pods."""
