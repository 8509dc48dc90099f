"""Reading a container's log: the tail, since a time, and following as it grows.

The shim rotates `log` to `log.1`; a reader that follows notices by the inode of `log`.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime
    from pathlib import Path

    from muster.local.apiserver.streams.node_interface import LogOptions

_POLL = 0.05
_BLOCK = 256 * 1024
_TAG = 38
"""The offset of F or P in a record: after 31 characters of time and 7 of stream."""


class LogRenderer:
    """Turns records into output. Pieces of one line are joined again."""

    def __init__(self, *, timestamps: bool, since: datetime | None) -> None:
        self._timestamps = timestamps
        self._since = "" if since is None else since.strftime("%Y-%m-%dT%H:%M:%S.%f")
        self._middle: dict[bytes, bool] = {}

    def render(self, record: bytes) -> bytes:
        stamp, _, rest = record.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        if self._since and stamp.decode()[: len(self._since)] < self._since:
            return b""
        head = b"" if self._middle.get(stream) or not self._timestamps else stamp + b" "
        self._middle[stream] = tag == b"P"
        return head + text + (b"" if tag == b"P" else b"\n")


def tail(path: Path, lines: int, size: int) -> tuple[Path, int]:
    """Where the last `lines` lines of the log's first `size` bytes begin: file and offset."""
    older = path.with_name("log.1")
    offset, missing = _tail(path, lines, size)
    if offset == 0 and older.exists():
        # A line may begin before the rotation and continue after it.
        missing += size > 0 and _ends_within_line(older)
        if missing:
            return older, _tail(older, missing, older.stat().st_size)[0]
    return path, offset


def _ends_within_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _BLOCK))
        last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    return last[_TAG : _TAG + 1] == b"P"


def _tail(path: Path, lines: int, size: int) -> tuple[int, int]:
    """The offset of the last `lines` lines, found backwards, and how many the file lacks."""
    if not lines or not size:
        return size, lines
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as log:
        end, count = log.rfind(b"\n", 0, size) + 1, 0
        last = end
        while end > 0:
            start = log.rfind(b"\n", 0, end - 1) + 1
            # A record marked F ends a line, so the one after it begins the next.
            if end != last and log[start + _TAG : start + _TAG + 1] == b"F":
                count += 1
                if count == lines:
                    return end, 0
            end = start
    return 0, lines - count - 1


async def read(path: Path, options: LogOptions, alive: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log's bytes, a block at a time; with `follow`, until the container is no longer `alive`.

    Blocks and not lines: sending a piece to the client costs the same whatever its size.
    """
    left = sys.maxsize if options.limit_bytes is None else options.limit_bytes
    renderer = LogRenderer(timestamps=options.timestamps, since=options.since)
    async for records in _blocks(path, options, alive):
        output = b"".join(map(renderer.render, records))[:left]
        if output:
            yield output
            left -= len(output)
        if left <= 0:
            return


async def _blocks(
    path: Path, options: LogOptions, alive: Callable[[], bool]
) -> AsyncIterator[list[bytes]]:
    """The log's records, as many at a time as a block holds.

    Without `follow` reading stops where the log ended at the time of the call.
    """
    older = path.with_name("log.1")
    partial = b""
    # Between the two steps of a rotation only the older file exists.
    newest = path if os.path.exists(path) else older  # noqa: ASYNC240 - files of this machine
    last = os.stat(newest)
    begin, offset = (older if older.exists() else newest), 0
    if options.tail is not None:
        begin, offset = tail(newest, options.tail, last.st_size)
    file = begin.open("rb")
    try:
        file.seek(offset)
        while True:
            # Checked before reading, so that everything written before the exit is read.
            continues = options.follow and alive()
            size = _BLOCK
            if not options.follow and os.fstat(file.fileno()).st_ino == last.st_ino:
                size = min(_BLOCK, last.st_size - file.tell())
            data = file.read(size)
            *records, partial = (partial + data).split(b"\n")
            if records:
                yield records
            if data:
                continue
            if not size:
                return
            if _replaced(file.fileno(), path):
                # After two rotations the next part is in the older file.
                following = older if _replaced(file.fileno(), older) else path
                file.close()
                file = following.open("rb")
            elif continues:
                await asyncio.sleep(_POLL)
            else:
                return
    finally:
        file.close()


def _replaced(fd: int, path: Path) -> bool:
    """Whether another file has this name now."""
    try:
        return os.fstat(fd).st_ino != path.stat().st_ino
    except FileNotFoundError:
        return False
