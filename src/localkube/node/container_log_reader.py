"""Reads a container's log: its tail, since a time, and following it as it grows.

The shim rotates the log: it renames `log` to `log.1` and starts a new `log`. A reader keeps its
file open, and compares inodes to notice that `log` is another file now. `log_writer` describes the
format.
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

    from localkube.node_interface import LogOptions

_POLL = 0.05
"""Seconds between two looks at a log that is followed."""
_BLOCK = 256 * 1024
_TAG = 38
"""The offset of F or P in a record: after 31 characters of time and 7 of stream."""


class LogRenderer:
    """Turns records into output; joins the pieces of one line again."""

    def __init__(self, *, timestamps: bool, since: datetime | None) -> None:
        self._timestamps = timestamps
        # Times in this format sort as text, which is faster than parsing every record.
        self._since = "" if since is None else since.strftime("%Y-%m-%dT%H:%M:%S.%f")
        self._within_line: dict[bytes, bool] = {}

    def render(self, record: bytes) -> bytes:
        stamp, _, rest = record.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        if self._since and stamp.decode()[: len(self._since)] < self._since:
            return b""
        # stdout and stderr alternate in the log, so each has its own unfinished line.
        head = b"" if self._within_line.get(stream) or not self._timestamps else stamp + b" "
        self._within_line[stream] = tag == b"P"
        return head + text + (b"" if tag == b"P" else b"\n")


def tail(path: Path, lines: int, size: int) -> tuple[Path, int]:
    """File and offset at which the last `lines` lines begin; only `size` bytes of `path` count."""
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
    """The offset of the last `lines` lines, and how many lines the file has too few."""
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

    It yields blocks, not lines: each piece costs the same to send, whatever its size.
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

    Without `follow`, reading stops where the log ended at the time of the call.
    """
    older = path.with_name("log.1")
    partial = b""
    # Between the two steps of a rotation only the older file exists.
    newest = path if os.path.exists(path) else older  # noqa: ASYNC240 - files of this machine
    end = os.stat(newest)
    first, offset = (older if older.exists() else newest), 0
    if options.tail is not None:
        first, offset = tail(newest, options.tail, end.st_size)
    file = first.open("rb")
    try:
        file.seek(offset)
        while True:
            # Check before reading: the program's last words are written before it exits.
            continues = options.follow and alive()
            size = _BLOCK
            if not options.follow and os.fstat(file.fileno()).st_ino == end.st_ino:
                size = min(_BLOCK, end.st_size - file.tell())
            data = file.read(size)
            *records, partial = (partial + data).split(b"\n")
            if records:
                yield records
            if data:
                continue
            if not size:
                return
            if _replaced(file.fileno(), path):
                # If our file is neither `log` nor `log.1`, the log was rotated twice: the next
                # records are in `log.1`.
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
    """Whether this name now belongs to a file other than the open one."""
    try:
        return os.fstat(fd).st_ino != path.stat().st_ino
    except FileNotFoundError:
        return False
