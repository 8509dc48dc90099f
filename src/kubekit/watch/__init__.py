"""Watching: the stream of changes, and informers that keep objects in memory."""
