"""Kinds whose controllers create pods."""
