"""The format of a container's log, one record a line, as in the kubelet's logs:

    2026-01-02T03:04:05.000000000Z stdout F text

F ends a line of the program, P is a piece of one that goes on in the next record.
Written by `shim`, read by the daemon's `logs`.
"""

from __future__ import annotations

import time

_LONGEST = 16 * 1024
_MOST_LINES, _MOST_BYTES = 80, 2048
_READ_BACK = 64 * 1024


def stamp(nanoseconds: int) -> str:
    """RFC 3339 with nine digits, UTC."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def records(stream: str, data: bytes, nanoseconds: int) -> bytes:
    """What to append to the log for bytes just read from `stream`."""
    head = f"{stamp(nanoseconds)} {stream} ".encode()
    *lines, rest = data.split(b"\n")
    out = [_record(head, b"F ", line) for line in lines]
    if rest:
        out.append(_record(head, b"P ", rest))
    return b"".join(out)


def _record(head: bytes, tag: bytes, text: bytes) -> bytes:
    pieces = [text[i : i + _LONGEST] for i in range(0, len(text), _LONGEST)] or [b""]
    parts = [head + b"P " + piece + b"\n" for piece in pieces[:-1]]
    return b"".join([*parts, head + tag + pieces[-1] + b"\n"])


def last_words(path: str) -> str:
    """What the program said last, as much of it as a pod's status bears."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _READ_BACK))
            kept = file.read().split(b"\n")[:-1]
    except OSError:
        return ""
    whole = kept if size <= _READ_BACK else kept[1:]
    parts = [record.split(b" ", 3) for record in whole]
    lines = b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in parts)
    tail = b"".join(lines.splitlines(keepends=True)[-_MOST_LINES:])
    return tail[-_MOST_BYTES:].decode(errors="replace")
