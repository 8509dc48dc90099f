"""Validating admission policies: which writes they match, and what they say about them."""
