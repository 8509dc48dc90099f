"""Verbs about the program itself: its settings, completion and version."""
