"""Values that strangers write as text: integers, times, durations and JSON in annotations.

Everybody who may create a pod may write anything into annotations, labels and messages. Python's
own parsers are too generous for that: `int` raises for 5,000 digits, `"²".isdigit()` is true,
`fromisoformat` reads times that have no UTC, and `json` follows every bracket down and gives
strings that cannot be encoded.

Promise: a reader returns None for what it cannot read, raises nothing, and takes time and memory in
proportion to the length of the text at most.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import msgspec

MAX_INTEGER = 2**31 - 1
"""The largest integer unless a caller says otherwise: counts in Kubernetes' objects are int32."""
MAX_SECONDS = 1e9
"""The longest duration: about 30 years."""
MAX_JSON = 64 << 10
"""Characters of a JSON document."""
MAX_DEPTH = 16
"""Brackets within brackets in a JSON document."""

_DIGITS = re.compile(r"[0-9]{1,18}")
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)([smh]?)")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
# The closing quote is optional, so that a quote that nothing closes is read only once.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_integer(text: str, most: int = MAX_INTEGER) -> int | None:
    """An integer from 0 to `most`, in ASCII digits and nothing else."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    return number if number is not None and number <= most else None


def read_time(text: str) -> datetime | None:
    """A time as the API writes it (RFC 3339), in UTC; one that names no zone is read as UTC."""
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the 30th of February; a time before the year 1 in UTC
        return None


def read_duration(text: str) -> float | None:
    """Seconds: `90`, `90s`, `1.5m`, `1h`."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else None
    return seconds if seconds is not None and seconds < MAX_SECONDS else None


def read_json(text: str) -> Any:
    """A JSON document of bounded length and depth; None too if it holds half of a surrogate pair.

    None is also what `null` says: callers ask for the type that they expect.
    """
    if len(text) > MAX_JSON or _depth(text) > MAX_DEPTH:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _depth(text: str) -> int:
    """How deep the brackets outside of strings go."""
    steps = (1 if mark in "[{" else -1 for mark in _BRACKETS.findall(text) if mark in "[{]}")
    return max(accumulate(steps), default=0)
