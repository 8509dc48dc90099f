"""Reading a container's log: from the tail, since a time, and on as it grows.

Called by the backend. Bytes come out as the program wrote them, or with each line's time before it.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime
    from pathlib import Path

_POLL = 0.05
_BLOCK = 256 * 1024
_TAG = 38
"""Where a record says F or P: after thirty characters of time and six of stream."""


@dataclass(frozen=True)
class LogRange:
    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None


class LogRenderer:
    """Records in, what to show out. Pieces of one line are joined again."""

    def __init__(self, *, timestamps: bool, since: datetime | None) -> None:
        self._timestamps = timestamps
        self._since = "" if since is None else since.strftime("%Y-%m-%dT%H:%M:%S.%f")
        self._middle: dict[bytes, bool] = {}

    def show(self, record: bytes) -> bytes:
        stamp, _, rest = record.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        if self._since and stamp.decode()[: len(self._since)] < self._since:
            return b""
        head = b"" if self._middle.get(stream) or not self._timestamps else stamp + b" "
        self._middle[stream] = tag == b"P"
        return head + text + (b"" if tag == b"P" else b"\n")


def tail(path: Path, lines: int, size: int) -> tuple[Path, int]:
    """Where the last `lines` lines of the log's first `size` bytes begin: the file, and the place
    in it."""
    older = path.with_name("log.1")
    offset, missing = _tail(path, lines, size)
    if offset == 0 and older.exists():
        # A line may have begun before the rotation and gone on after it.
        missing += size > 0 and _ends_within_a_line(older)
        if missing:
            return older, _tail(older, missing, older.stat().st_size)[0]
    return path, offset


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _BLOCK))
        last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    return last[_TAG : _TAG + 1] == b"P"


def _tail(path: Path, lines: int, size: int) -> tuple[int, int]:
    """Where the last `lines` lines begin, found from the end backwards, and how many of them
    are not in this file."""
    if not lines or not size:
        return size, lines
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as log:
        end, found = log.rfind(b"\n", 0, size) + 1, 0
        last = end
        while end > 0:
            start = log.rfind(b"\n", 0, end - 1) + 1
            # A record marked F ends a line, so the one after it begins the next.
            if end != last and log[start + _TAG : start + _TAG + 1] == b"F":
                found += 1
                if found == lines:
                    return end, 0
            end = start
    return 0, lines - found - 1


async def read(path: Path, wanted: LogRange, alive: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log's bytes, a block at a time; with `follow`, until the container is no longer `alive`.

    A block and not a line: what a piece costs on its way to the client does not depend on its size.
    """
    left = sys.maxsize if wanted.limit is None else wanted.limit
    renderer = LogRenderer(timestamps=wanted.timestamps, since=wanted.since)
    async for records in _blocks(path, wanted, alive):
        shown = b"".join(map(renderer.show, records))[:left]
        if shown:
            yield shown
            left -= len(shown)
        if left <= 0:
            return


async def _blocks(
    path: Path, wanted: LogRange, alive: Callable[[], bool]
) -> AsyncIterator[list[bytes]]:
    """The log's records, as many at a time as a block holds.

    Without `follow` the log ends where it ended when it was asked for, however fast it grows.
    """
    older = path.with_name("log.1")
    held = b""
    # Between the two steps of a rotation there is only the older part.
    newest = path if os.path.exists(path) else older  # noqa: ASYNC240 - files of this machine
    last = os.stat(newest)
    begin, offset = (older if older.exists() else newest), 0
    if wanted.tail is not None:
        begin, offset = tail(newest, wanted.tail, last.st_size)
    file = begin.open("rb")
    try:
        file.seek(offset)
        while True:
            # Asked before reading: what was written before the end is then read for certain.
            going_on = wanted.follow and alive()
            size = _BLOCK
            if not wanted.follow and os.fstat(file.fileno()).st_ino == last.st_ino:
                size = min(_BLOCK, last.st_size - file.tell())
            data = file.read(size)
            *whole, held = (held + data).split(b"\n")
            if whole:
                yield whole
            if data:
                continue
            if not size:
                return
            if _replaced(file.fileno(), path):
                # Where it was rotated twice meanwhile, what came next is the older part now.
                then = older if _replaced(file.fileno(), older) else path
                file.close()
                file = then.open("rb")
            elif going_on:
                await asyncio.sleep(_POLL)
            else:
                return
    finally:
        file.close()


def _replaced(fd: int, path: Path) -> bool:
    """Whether the log was rotated: another file has the name."""
    try:
        return os.fstat(fd).st_ino != path.stat().st_ino
    except FileNotFoundError:
        return False
