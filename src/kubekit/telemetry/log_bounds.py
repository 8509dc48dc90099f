"""Bounds of a daemon's log: of the file, and of lines that others can cause at will."""

from __future__ import annotations

import logging
import os
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG_LIMIT = 10 * 1024 * 1024
"""Bytes of a daemon's log; one older file of this size is kept beside it."""


class BoundedFile:
    """The file behind standard output and standard error of a daemon, with a bound.

    At `limit` bytes it becomes `NAME.1`, which replaces the one before, and a new file begins.
    """

    def __init__(self, path: Path, limit: int = LOG_LIMIT) -> None:
        self._path, self._limit = path, limit

    @classmethod
    def behind_stderr(cls, path: Path) -> BoundedFile | None:
        """The file at this path if standard error goes there; None if it goes elsewhere."""
        try:
            same = os.path.samestat(os.fstat(2), path.stat())
        except OSError:
            same = False
        return cls(path) if same else None

    def rotate_if_full(self) -> None:
        size = os.fstat(2).st_size
        if size < self._limit:
            return
        new, older = (self._path.with_name(self._path.name + end) for end in (".new", ".1"))
        try:
            with open(new, "ab", buffering=0, opener=_private) as file:
                self._path.replace(older)
                new.replace(self._path)
                for number in (1, 2):
                    os.dup2(file.fileno(), number)
        except OSError:  # no descriptor is left, for example: try again with the next line
            if size > 2 * self._limit:
                os.ftruncate(2, 0)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class RepeatedRecords(logging.Filter):
    """Lets each message of a logger that is not ours through once per interval.

    Messages are told apart by their texts before arguments are filled in, of which there are few.
    """

    def __init__(self, every: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every, self._clock = every, clock
        self._next: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        if record.levelno > logging.WARNING:  # errors are bugs, and must not be lost
            return True
        if now < self._next.get(record.msg, now):
            return False
        self._next[record.msg] = now + self._every
        return True


MAX_TRACEBACK = 8000


def traceback_of(error: BaseException) -> str:
    """The end of an error's traceback; texts of objects in it may be long."""
    return "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]


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
