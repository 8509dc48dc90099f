"""Verbs that read manifests."""
