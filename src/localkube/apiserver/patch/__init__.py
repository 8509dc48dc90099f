"""Patches: merge, strategic merge, JSON patch."""
