"""A followed log in which each line appears exactly once, although its stream may break.

Pure: bytes in, bytes out. The stream always carries timestamps. After a reconnect the server sends
some lines again. The lines that were returned before are known by their timestamps: all lines with
an earlier timestamp than the last one, and as many lines with the last timestamp as were returned
with it. The first line that is new ends this: later lines are returned whatever their timestamp,
since the clock of a node may be set back. Timestamps are removed unless the reader wants them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_STAMP = 64


class ResumableLog:
    """Drops repeated lines: `feed` takes chunks, `reopened` says that a new stream begins."""

    def __init__(self, *, timestamps: bool = False) -> None:
        self._timestamps = timestamps
        self._last = b""
        self._resuming = False
        """No new line was seen since the reconnect."""
        self._same = 0
        """Lines returned that carry the last timestamp."""
        self._skip = 0
        """Lines with the last timestamp that come again after a reconnect."""
        self._head: bytes | None = b""
        """The beginning of a line whose timestamp is not complete; None within a line."""
        self._skipping = False

    def feed(self, chunk: bytes) -> bytes:
        """The part of this chunk that was not returned before."""
        return b"".join(self._pieces(chunk))

    def reopened(self) -> None:
        """A new stream begins: lines that were returned may come once more."""
        self._skip, self._head, self._skipping = self._same, b"", False
        self._resuming = True

    def since(self, now: datetime) -> float | None:
        """Seconds before now at which a new stream must begin; None for the beginning."""
        if not self._last:
            return None
        # Two seconds more than needed: rounding and clocks must not lose a line, and repeated
        # lines are dropped.
        return max(1.0, (now - _moment(self._last)).total_seconds() + 2)

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        for piece in _lines(chunk):
            if self._head is None:
                if not self._skipping:
                    yield piece
            else:
                yield self._begin(self._head + piece)
            if piece.endswith(b"\n"):
                self._head = b""

    def _begin(self, line: bytes) -> bytes:
        """The start of a line, held back until its timestamp is complete."""
        stamp, space, rest = line.partition(b" ")
        if not space and not line.endswith(b"\n") and len(line) < _LONGEST_STAMP:
            self._head = line
            return b""
        self._head = None
        if not space or not stamp[:1].isdigit():
            self._skipping = False
            return line  # not a log line but, for example, an error message of the server
        self._skipping = self._is_repeated(stamp)
        if self._skipping:
            return b""
        return line if self._timestamps else rest

    def _is_repeated(self, stamp: bytes) -> bool:
        if self._resuming:
            if stamp < self._last:
                return True
            if stamp == self._last and self._skip:
                self._skip -= 1
                return True
            self._resuming = False
        self._same = self._same + 1 if stamp == self._last else 1
        self._last = stamp
        return False


def _lines(chunk: bytes) -> list[bytes]:
    """Split at line feeds alone: a carriage return belongs to a progress bar."""
    parts = chunk.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _moment(stamp: bytes) -> datetime:
    text = stamp.decode(errors="replace")
    return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)  # whole seconds are enough
