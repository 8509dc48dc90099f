"""Errors of the system in words for people: what happened, without numbers and without reprs.

Used wherever one of them ends up in a pod's status, an event or an answer of the API.
"""

from __future__ import annotations

import os


def of(error: Exception) -> str:
    """The sentence of an error; for one of the system's its own, and the file it is about."""
    if not isinstance(error, OSError) or error.errno is None or error.errno <= 0:
        return str(error) or type(error).__name__
    what = os.strerror(error.errno)
    return f"{what}: {os.fsdecode(error.filename)}" if error.filename else what
