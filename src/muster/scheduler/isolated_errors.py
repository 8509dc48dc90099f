"""Errors in dealing with one gang or one object: nobody else notices; tests see them raised.

What strangers write is read by parsers that raise nothing. This is for what nobody foresaw: a bug
that one gang's objects bring out must not end the scheduler of all gangs.
"""

from __future__ import annotations

from kubekit.telemetry import unexpected_errors
from muster.scheduler.gangs import phase


def survived(step: str, about: object, error: Exception) -> None:
    """Count and log an error in a step of the scheduler; raise it if the tests are running."""
    if phase.STRICT:
        raise error
    unexpected_errors.survived(f"scheduler {step}", about, error)
