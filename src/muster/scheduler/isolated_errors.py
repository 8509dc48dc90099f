"""Errors in dealing with one gang or one object: nobody else notices; tests see them raised.

What strangers write is read by parsers that raise nothing. This is for what nobody foresaw: a bug
that one gang's objects bring out must not end the scheduler of all gangs. The error is counted and
logged; if it was in the decision about a gang, that gang waits (`decision.after_error`).

Kept apart because every part of the scheduler needs it.
"""

from __future__ import annotations

import os

from kubekit.telemetry import unexpected_errors

STRICT = "MUSTER_ASSERT" in os.environ
"""Set by the tests: an error, or a broken promise, then raises."""


class isolated(unexpected_errors.isolated):
    """Survive an error in a step of the scheduler that is about one gang or object alone."""

    def __init__(self, step: str, about: object) -> None:
        super().__init__(f"scheduler {step}", about)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return not STRICT and super().__exit__(kind, error, trace)
