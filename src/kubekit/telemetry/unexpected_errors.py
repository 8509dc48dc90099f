"""Errors that nobody expected, mostly because of what a stranger wrote into one object.

Whoever catches one goes on with the other objects. Each is counted; the log gets one of them per
place and interval, because a stranger can cause them at will.
"""

from __future__ import annotations

import logging

from kubekit.telemetry import metrics
from kubekit.telemetry.log_bounds import RepeatedLine, traceback_of

log = logging.getLogger(__name__)

ERRORS = metrics.counter(
    "unexpected_errors_total", "Errors about one object that were survived.", "where"
)
_lines: dict[str, RepeatedLine] = {}


def survived(where: str, subject: object, error: BaseException, then: str = "") -> None:
    """Count and log an error about `subject`; `where` is a fixed word, not text of an object."""
    ERRORS.labels(where).inc()
    line = _lines.setdefault(where, RepeatedLine(log, logging.ERROR))
    line.log("%s %.200s: bug%s: %s", where, subject, then, traceback_of(error))
