"""Watching without I/O: bytes to lines, lines to events, and where a list+watch stands.

`client.watch` and `blocking.watch` feed `Lines` and an event reader; `informer.py` asks `Progress`
what to do next. Promises: a line is decoded once; an object is never lost because another could not
be read; after a failure the pause grows, with jitter; history that is gone means a new list.
"""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from muster.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from muster.kube.decoding import MetadataOnly
from muster.kube.error_response import Status, error_from_status, unreadable_response
from muster.kube.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind
    from muster.errors import MusterError
    from muster.kube.request import Request

T = TypeVar("T")

TRANSIENT_ERRORS = (ServerError, TooManyRequests, Unauthorized)
"""Answers that say nothing of the version: a server that starts knows nobody for a moment."""


class LineSplitter:
    """Bytes in, complete lines out; an unfinished line is kept in pieces (no quadratic copy)."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        head, newline, rest = chunk.partition(b"\n")
        self._pieces.append(head)
        if not newline:
            return []
        first = b"".join(self._pieces)
        *whole, tail = rest.split(b"\n")
        self._pieces = [tail] if tail else []
        return [first, *whole] if first else whole


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. `type` is ADDED, MODIFIED, DELETED, BOOKMARK (the object has only its version) or
    UNREADABLE (the object exists but does not fit our struct; it has only its metadata)."""

    type: str
    object: T


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


@cache
def _event_decoder(model: Any) -> Callable[[bytes], WatchEvent[Any]]:
    return msgspec.json.Decoder(WatchEvent[model]).decode


def event_reader(kind: Kind[T], request: Request) -> Callable[[bytes], WatchEvent[T]]:
    """A function from a line to its event; it raises what an ERROR event stands for."""
    decode = _event_decoder(cast(Any, kind.model))

    def read(line: bytes) -> WatchEvent[T]:
        try:
            event = decode(line)
        except msgspec.DecodeError as error:
            return _read_slowly(line, kind, request, error)
        if event.type == "ERROR":
            return _read_slowly(line, kind, request, None)
        return event

    return read


def _read_slowly(
    line: bytes, kind: Kind[T], request: Request, why: msgspec.DecodeError | None
) -> WatchEvent[T]:
    """What the typed decode did not take: errors, bookmarks with nulls in them, odd objects."""
    try:
        event = msgspec.json.decode(line, type=_RawEvent)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            raise error_from_status(status, status.code or 500, request)
        known = msgspec.json.decode(event.object, type=MetadataOnly)
        bare = msgspec.convert(msgspec.to_builtins(known), kind.model)
    except msgspec.DecodeError as error:
        what = f"an event about {kind.resource} cannot be understood"
        raise unreadable_response(what, why or error) from error
    gone = event.type in ("BOOKMARK", "DELETED")
    return WatchEvent(event.type if gone else "UNREADABLE", bare)


UNREACHABLE_BACKOFF = Backoff(first=0.1, cap=5.0)
FORBIDDEN_BACKOFF = Backoff(first=0.1, cap=30.0)
"""A server that says no is asked less often than one that is away: rights change by hand."""


class WatchProgress:
    """Where one list+watch stands: the version seen so far, and the pause before the next try.

    The version moves with every event and bookmark, so that a broken stream resumes where it was.
    It is forgotten, which means a new list, when the server no longer has the history, and when it
    says something that watching on would not mend.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self.version = ""
        self._chance = chance
        self._failures = 0

    @property
    def must_list(self) -> bool:
        return not self.version

    def listed(self, version: str) -> None:
        self.version = version

    def saw(self, version: str) -> None:
        if version:
            self.version = version
        self._failures = 0

    def ended(self, lasted: float) -> float:
        """The server closed the stream. One that lasted is renewed at once."""
        if lasted >= 1.0:
            self._failures = 0
            return 0.0
        return self._pause(UNREACHABLE_BACKOFF)

    def failed(self, error: MusterError) -> float:
        """The pause after an error; also decides whether the version is still worth anything."""
        if isinstance(error, ApiError) and not isinstance(error, TRANSIENT_ERRORS):
            self.version = ""
        if isinstance(error, Forbidden | Unauthorized):
            return self._pause(FORBIDDEN_BACKOFF)
        pause = self._pause(UNREACHABLE_BACKOFF)
        if isinstance(error, Gone | NotFound) or not isinstance(error, ApiError):
            return pause
        return max(pause, error.retry_after or 0.0)

    def _pause(self, backoff: Backoff) -> float:
        self._failures += 1
        return backoff._replace(chance=self._chance).delay(self._failures)
