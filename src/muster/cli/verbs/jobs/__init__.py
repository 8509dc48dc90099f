"""Verbs about training jobs."""
