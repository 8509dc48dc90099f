"""Webhooks that the API server calls: for admission, and to convert custom objects."""
