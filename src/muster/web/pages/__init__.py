"""Answers to requests: read the request, take the live objects, call the view, render."""
