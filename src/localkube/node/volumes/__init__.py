"""Volumes of pods as directories on this machine."""
