"""Errors that nobody expected, mostly because of what a stranger wrote into one object.

Whoever deals with many objects goes on with the others (`isolated`). Each error is counted; the log
gets one of them per place and interval, because a stranger can cause them at will. `RepeatedLine`
does the same for other lines that strangers can cause.
"""

from __future__ import annotations

import logging
import time
import traceback
from typing import TYPE_CHECKING, Self

from kubekit.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

ERRORS = metrics.counter(
    "unexpected_errors_total", "Errors that nobody expected; each concerned one object.", "where"
)
MAX_TRACEBACK = 8000


class RepeatedLine:
    """A line that others can cause as often as they like: written once per interval.

    The next line says how many were left out.
    """

    def __init__(
        self,
        logger: logging.Logger,
        level: int,
        every: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._level, self._every, self._clock = logger, level, every, clock
        self._next = float("-inf")
        self._omitted = 0

    def log(self, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        now = self._clock()
        if now < self._next:
            self._omitted += 1
            return
        if self._omitted:
            message += f" ({self._omitted} more like it since the last such line)"
        self._next, self._omitted = now + self._every, 0
        self._logger.log(self._level, message, *args, exc_info=exc_info)


_lines: dict[str, RepeatedLine] = {}


def survived(where: str, subject: object, error: BaseException, then: str = "") -> None:
    """Count and log an error about `subject`; `where` is a fixed word, not text of an object."""
    ERRORS.labels(where).inc()
    line = _lines.setdefault(where, RepeatedLine(log, logging.ERROR))
    line.log("%s %.200s: bug%s: %s", where, subject, then, traceback_of(error))


class isolated:
    """Survive an error in the block, which deals with `subject` alone, and go on after the block.

    The block may await: cancellation passes through.
    """

    def __init__(self, where: str, subject: object) -> None:
        self.error: Exception | None = None
        self._where, self._subject = where, subject

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        survived(self._where, self._subject, error)
        return True


def traceback_of(error: BaseException) -> str:
    """The end of an error's traceback; texts of objects in it may be long."""
    return "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
