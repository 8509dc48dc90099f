"""Verbs that serve the dashboard, open it, and print addresses in it."""
