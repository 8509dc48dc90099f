"""Answers to readers: lists, watch events, tables, discovery, OpenAPI, usage."""
