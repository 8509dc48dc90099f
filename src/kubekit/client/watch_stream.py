"""How long a watch lasts, and its bytes read as events. No I/O.

Each line is decoded once, straight into its struct. A line that does not fit is read again slowly:
an ERROR event is raised as its error, and an object that does not fit its struct becomes an event
with its metadata only, so that one odd object does not end the watch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from kubekit.client.decoding import MetadataOnly, decode_nested
from kubekit.client.error_response import Status, error_from_status, unreadable_response
from kubekit.objects.kinds import convert, decoder_of
from kubekit.request_errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.request import Request
    from kubekit.objects.kinds import Kind

T = TypeVar("T")

# A random length, as in client-go: the watches of many informers must not all end together.
WATCH_SECONDS = (300, 600)
# Through a proxy nobody notices that the server is gone until the watch should have ended: TCP
# keepalive reaches the proxy only.
WATCH_SECONDS_THROUGH_PROXY = (60, 120)
LONGEST_LINE = 256 << 20
"""No server stores an object that large; a compressed stream can claim one with few bytes."""


class LineSplitter:
    """Splits chunks into lines; an unfinished line stays in parts, to avoid quadratic copying."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._unfinished = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        head, newline, rest = chunk.partition(b"\n")
        self._parts.append(head)
        if not newline:
            self._unfinished += len(head)
            if self._unfinished > LONGEST_LINE:
                raise Unreachable(f"a watch event has more than {LONGEST_LINE} bytes")
            return []
        first = b"".join(self._parts)  # one copy, however many chunks the line came in
        *lines, tail = rest.split(b"\n")
        self._parts, self._unfinished = [tail] if tail else [], len(tail)
        return [first, *lines] if first else lines


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. `type` is ADDED, MODIFIED, DELETED, BOOKMARK (the object has only its version) or
    UNREADABLE (the object exists but does not fit our struct; it has only its metadata)."""

    type: str
    object: T


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


def event_reader(kind: Kind[T], request: Request) -> Callable[[bytes], WatchEvent[T]]:
    """A function from a line to its event; an ERROR event is raised as an error."""
    model: Any = kind.model
    decoder: msgspec.json.Decoder[WatchEvent[T]] = decoder_of(WatchEvent[model])

    def read(line: bytes) -> WatchEvent[T]:
        try:
            event = decode_nested(decoder, line)
        except msgspec.DecodeError as error:
            return _read_slowly(line, kind, request, error)
        return event if event.type != "ERROR" else _read_slowly(line, kind, request, None)

    return read


def _read_slowly(
    line: bytes, kind: Kind[T], request: Request, cause: msgspec.DecodeError | None
) -> WatchEvent[T]:
    """Lines that do not fit the typed decode: errors, bookmarks with nulls, odd objects."""
    try:
        event = decode_nested(decoder_of(_RawEvent), line)
        if event.type == "ERROR":
            status = decoder_of(Status).decode(event.object)
            raise error_from_status(status, status.code or 500, request)
        metadata = decoder_of(MetadataOnly).decode(event.object)
        bare = convert(msgspec.to_builtins(metadata), kind.model)
    except msgspec.DecodeError as error:
        problem = f"an event about {kind.resource} cannot be decoded"
        raise unreadable_response(problem, cause or error) from error
    # Of a bookmark or a deleted object only the metadata matters.
    readable = event.type in ("BOOKMARK", "DELETED")
    return WatchEvent(event.type if readable else "UNREADABLE", bare)
