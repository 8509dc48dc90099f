"""Writes a container's log and rotates it. One record per line, as in the kubelet's logs:

    2026-01-02T03:04:05.000000000Z stdout F text

F ends a line of the program; P is a part of a line that continues in the next record.
"""

from __future__ import annotations

import contextlib
import os
import time

_LOG_LIMIT = 64 << 20
_MAX_TEXT = 16 * 1024
# The limits of the kubelet for a termination message from the log.
_MAX_LINES, _MAX_BYTES = 80, 2048
_READ_BACK = 64 * 1024


class LogWriter:
    """The log file of one container. A full file is renamed to `.1`, which is overwritten."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the shim lives

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, stream: str, data: bytes) -> None:
        """Append bytes just read from `stream`. A full disk must not stop the program."""
        lines = records(stream, data, time.time_ns())
        with contextlib.suppress(OSError):
            if self._file.tell() + len(lines) > _LOG_LIMIT:
                os.replace(self._path, f"{self._path}.1")
                self._file.close()
                self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
            self._file.write(lines)


def stamp(nanoseconds: int) -> str:
    """RFC 3339 with nine digits, UTC."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def records(stream: str, data: bytes, nanoseconds: int) -> bytes:
    """The records for bytes just read from `stream`."""
    head = f"{stamp(nanoseconds)} {stream} ".encode()
    *lines, rest = data.split(b"\n")
    out = [_record(head, b"F ", line) for line in lines]
    if rest:
        out.append(_record(head, b"P ", rest))
    return b"".join(out)


def _record(head: bytes, tag: bytes, text: bytes) -> bytes:
    pieces = [text[i : i + _MAX_TEXT] for i in range(0, len(text), _MAX_TEXT)] or [b""]
    parts = [head + b"P " + piece + b"\n" for piece in pieces[:-1]]
    return b"".join([*parts, head + tag + pieces[-1] + b"\n"])


def last_lines(path: str) -> str:
    """The end of the program's output, up to the size that a pod's status may have."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _READ_BACK))
            records = file.read().split(b"\n")[:-1]
    except OSError:
        return ""
    complete = records if size <= _READ_BACK else records[1:]  # the first one is cut
    parts = [record.split(b" ", 3) for record in complete]
    lines = b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in parts)
    tail = b"".join(lines.splitlines(keepends=True)[-_MAX_LINES:])
    return tail[-_MAX_BYTES:].decode(errors="replace")
