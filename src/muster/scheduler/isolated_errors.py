"""Errors in dealing with one gang or one object: counted and logged, and nobody else notices.

What strangers write is read by parsers that raise nothing. This is for what nobody foresaw: a bug
that one gang's objects bring out must not end the scheduler of all gangs.
"""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING

from muster.scheduler import metrics
from muster.scheduler.gangs import phase

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

LOGGED_PER_MINUTE = 10
"""Tracebacks in the log: whoever finds such an error can repeat it as often as they like."""
MAX_TRACEBACK = 8000
MAX_NAME = 300


class IsolatedErrors:
    """The errors of one part of the scheduler."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._minute, self._logged, self._left_out = clock(), 0, 0

    def take(self, step: str, about: object, error: Exception) -> None:
        """Count an error and log it with its traceback; tests see it raised."""
        if phase.STRICT:
            raise error
        metrics.ERRORS.labels(step).inc()
        now = self._clock()
        if now - self._minute >= 60:
            if self._left_out:
                self._log.error("%d more errors about single gangs were not logged", self._left_out)
            self._minute, self._logged, self._left_out = now, 0, 0
        self._logged += 1
        if self._logged > LOGGED_PER_MINUTE:
            self._left_out += 1
            return
        text = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
        name = str(about)[:MAX_NAME]
        self._log.error("please report this: error in the %s of %r: %s", step, name, text)
