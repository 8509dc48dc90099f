"""Eviction of pods that use too much of the machine's disk."""
