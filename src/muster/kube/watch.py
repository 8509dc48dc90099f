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

from muster.errors import ApiError, Forbidden, Gone, NotFound, ServerError, TooMany, Unauthorized
from muster.kube.refusal import Status, from_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind
    from muster.errors import MusterError
    from muster.kube.request import Request

T = TypeVar("T")


class Lines:
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

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"".join(self._pieces)


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. `type` is ADDED, MODIFIED, DELETED, BOOKMARK (the object has only its version) or
    UNREADABLE (the object exists but does not fit our struct; it has only its metadata)."""

    type: str
    object: T


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _OnlyMeta(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


@cache
def _event_decoder(model: Any) -> Callable[[bytes], WatchEvent[Any]]:
    return msgspec.json.Decoder(WatchEvent[model]).decode


def reader(kind: Kind[T], request: Request) -> Callable[[bytes], WatchEvent[T]]:
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
            raise from_status(status, status.code or 500, request)
        metadata = msgspec.json.decode(event.object, type=_OnlyMeta)
        bare = msgspec.convert(msgspec.to_builtins(metadata), kind.model)
    except msgspec.DecodeError as error:
        raise ApiError(
            f"an event about {kind.resource} cannot be understood: {why or error}",
            reason="Unreadable",
        ) from error
    gone = event.type in ("BOOKMARK", "DELETED")
    return WatchEvent(event.type if gone else "UNREADABLE", bare)


class Backoff:
    """Pauses that double up to a limit, each between half and the whole of its size."""

    def __init__(
        self, first: float = 0.1, limit: float = 5.0, chance: Callable[[], float] = random.random
    ) -> None:
        self._first, self._limit, self._chance = first, limit, chance
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def pause(self, limit: float | None = None) -> float:
        """How long to wait this time; `limit` overrides the usual one."""
        size = min(self._next, self._limit if limit is None else limit)
        self._next = min(self._next * 2, 60.0)
        return size * (0.5 + 0.5 * self._chance())


REFUSED_LIMIT = 30.0
"""A server that says no is asked less often than one that is away: rights change by hand."""


class Progress:
    """Where one list+watch stands: the version seen so far, and the pause before the next try.

    The version moves with every event and bookmark, so that a broken stream resumes where it was.
    It is forgotten, which means a new list, when the server no longer has the history, and when it
    says something that watching on would not mend.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self.version = ""
        self._backoff = Backoff(chance=chance)

    @property
    def must_list(self) -> bool:
        return not self.version

    def listed(self, version: str) -> None:
        self.version = version

    def saw(self, version: str) -> None:
        if version:
            self.version = version
        self._backoff.reset()

    def ended(self, lasted: float) -> float:
        """The server closed the stream. One that lasted is renewed at once."""
        if lasted >= 1.0:
            self._backoff.reset()
            return 0.0
        return self._backoff.pause()

    def failed(self, error: MusterError) -> float:
        """The pause after an error; also decides whether the version is still worth anything."""
        if isinstance(error, ApiError) and not isinstance(error, ServerError | TooMany):
            self.version = ""
        if isinstance(error, Forbidden | Unauthorized):
            return self._backoff.pause(REFUSED_LIMIT)
        pause = self._backoff.pause()
        if isinstance(error, Gone | NotFound) or not isinstance(error, ApiError):
            return pause
        return max(pause, error.retry_after or 0.0)


def version_of(obj: Any) -> str:
    """The resourceVersion of a struct or of a raw object."""
    if isinstance(obj, dict):
        version: str = (obj.get("metadata") or {}).get("resourceVersion", "")
        return version
    found: str = obj.metadata.resource_version
    return found
