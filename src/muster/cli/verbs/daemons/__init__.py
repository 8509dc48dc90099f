"""Verbs that run a daemon."""
