"""Validating admission policies: whether they compile, and what they say about a request."""
