"""Log lines for people or as JSON, without secrets and without forged lines.

One record is one line (a traceback in human form: lines that begin with a bar). Control characters
are escaped, so that no pod name or error text from outside can forge a line or control the
terminal. Whatever looks like a token, a password or a private key is hidden.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, TextIO

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_COLOURS = {"DEBUG": "2", "INFO": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_HIDDEN = "***"
LOG_LIMIT = 10 * 1024 * 1024
"""Bytes of a daemon's log; one older file of this size is kept beside it."""

# Each is linear in the text: a log line may contain text written by an attacker.
_SECRETS = (
    re.compile(
        r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,20}PRIVATE KEY-----|\Z)",
        re.DOTALL,
    ),
    re.compile(r"(?i)(?P<keep>\bauthorization[\"']?\s*[=:]\s*[\"']?(?:\w+\s+)?)[^\s\"',]+"),
    re.compile(r"(?i)(?P<keep>\bbearer\s+)[\w.~+/=-]{6,}"),
    re.compile(r"\beyJ[\w-]{8,2000}\.[\w-]{4,2000}\.[\w-]*"),
    re.compile(
        r"""(?ix)(?P<keep>(?:token|password|passwd|secret|api[-_]?key|client-key-data)
        ["']?\s*[=:]\s*)(?:"[^"]*"|'[^']*'|[^\s,;&"'(){}\[\]]+)"""
    ),
    re.compile(r"(?P<keep>://[^\s/:@]*:)[^\s/@]+(?=@)"),
)
_SECRET_NAME = re.compile(r"(?i)token|passw|secret|authorization|api[-_]?key|private|credential")

# C0, DEL, C1, line and paragraph separators, and the marks that reorder text on a terminal.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)


def setup(
    format: str = "human",
    level: str = "info",
    *,
    stream: TextIO | None = None,
    file: BoundedFile | None = None,
) -> None:
    """Write all logs of that level and above to the stream (stderr). Can be called again."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise UsageError(f"unknown log level {level!r}", hint="debug, info, warning or error")
    if format not in ("human", "json"):
        raise UsageError(f"unknown log format {format!r}", hint="human or json")
    out = stream if stream is not None else sys.stderr
    handler = _Handler(out, file)
    colour = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    handler.setFormatter(Json() if format == "json" else Human(colour=colour))
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    # At the debug level asyncio logs its own internals.
    loop = logging.getLogger("asyncio")
    loop.setLevel(max(number, logging.WARNING))
    # It warns of every write to a connection that the client has closed.
    if not any(isinstance(each, RepeatedRecords) for each in loop.filters):
        loop.addFilter(RepeatedRecords())


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
            return cls(path) if os.path.samestat(os.fstat(2), path.stat()) else None
        except OSError:
            return None

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
        if record.levelno > logging.WARNING:  # errors are bugs, and must not be lost
            return True
        now = self._clock()
        if now < self._next.get(record.msg, now):
            return False
        self._next[record.msg] = now + self._every
        return True


class _Handler(logging.StreamHandler[TextIO]):
    """A subclass, so that a second `setup` replaces only this handler."""

    def __init__(self, stream: TextIO, file: BoundedFile | None) -> None:
        super().__init__(stream)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._file is not None:
            self._file.rotate_if_full()


def redact(text: str) -> str:
    """The text with everything hidden that looks like a secret."""
    for pattern in _SECRETS:
        keep = r"\g<keep>" if "keep" in pattern.groupindex else ""
        text = pattern.sub(keep + _HIDDEN, text)
    return text


def printable(text: str) -> str:
    """The text on one line, with control characters escaped."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    """The fields that the caller gave as `extra=`, with secrets hidden."""
    return {
        name: _HIDDEN if _SECRET_NAME.search(name) else _clean(value)
        for name, value in vars(record).items()
        if name not in _ORDINARY and not name.startswith("_")
    }


def _clean(value: object) -> object:
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    return redact(str(value))


def _traceback(record: logging.LogRecord) -> str:
    """The traceback of a record; empty if it has none."""
    if record.exc_info and record.exc_info[0] is not None:
        return redact(logging.Formatter().formatException(record.exc_info))
    return redact(record.exc_text or "")


class Human(logging.Formatter):
    """`2026-11-15 12:00:00.123 WARNING kubekit.control.loop: text  job=a`, coloured on request."""

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        level = f"{record.levelname:<7}"
        if self._colour:
            level = f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        line = f"{when} {level} {record.name}: {printable(redact(record.getMessage()))}"
        for name, value in _extra(record).items():
            line += f"  {printable(name)}={printable(str(value))}"
        for text in _traceback(record).splitlines():
            line += f"\n    | {printable(text)}"
        return line


class Json(logging.Formatter):
    """One object per line: ts, level, logger, msg, error (a traceback), and the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "ts": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": redact(record.getMessage()),
        }
        if traceback := _traceback(record):
            fields["error"] = traceback
        # An extra field never replaces one of ours, and all but ASCII is escaped.
        return json.dumps({**fields, **_extra(record), **fields})
