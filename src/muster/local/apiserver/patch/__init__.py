"""Patches: merge, strategic merge, JSON patch, server-side apply."""
