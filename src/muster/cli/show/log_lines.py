"""Log lines on a terminal: prefixed with their pod, and made harmless.

A program's log could otherwise move the cursor, set the title or answer for the reader: on a
terminal colours pass and other escape sequences are spelt out. A pipe gets the bytes unchanged.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from muster.cli.show import colour

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.meta import Key

# Tabs, line ends and the backspaces of progress bars are kept; C1 controls come as two bytes.
_HOSTILE = re.compile(
    rb"\x1b(?!\[[0-9;:]*m)|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
)
# An escape sequence that a chunk ends in: its rest may come with the next chunk.
_UNFINISHED = re.compile(rb"(\x1b(\[[0-9;:]{0,64})?|\xc2)\Z")


def escape_controls(data: bytes) -> bytes:
    """The bytes with control sequences other than colours spelt out."""
    return _HOSTILE.sub(lambda match: repr(match[0])[2:-1].encode(), data)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_log(chunks: Iterable[bytes]) -> None:
    """Bytes to standard output as they come, in chunks of any size."""
    if not sys.stdout.isatty():
        for chunk in chunks:
            _write(chunk)
        return
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        cut = _UNFINISHED.search(data)
        end = cut.start() if cut else len(data)
        rest = data[end:]
        _write(escape_controls(data[:end]))
    _write(escape_controls(rest))


def print_logs(chunks: Iterable[tuple[Key, bytes]], pods: Sequence[Key]) -> None:
    """The lines of several logs, each whole and with the name of its pod before it."""
    prefixes = _prefixes(pods)
    rests = dict.fromkeys(pods, b"")
    for pod, chunk in chunks:
        *lines, rests[pod] = (rests[pod] + chunk).split(b"\n")
        if not chunk and rests[pod]:  # the log has ended within a line
            lines, rests[pod] = [rests[pod]], b""
        if sys.stdout.isatty():
            lines = [escape_controls(line) for line in lines]
        if lines:
            _write(b"".join(prefixes[pod] + line + b"\n" for line in lines))


def _prefixes(pods: Sequence[Key]) -> dict[Key, bytes]:
    width = max((len(pod.name) for pod in pods), default=0)
    names = [pod.name.ljust(width) for pod in pods]
    if colour.enabled(sys.stdout):
        codes = colour.PREFIXES
        names = [colour.colour(name, codes[i % len(codes)]) for i, name in enumerate(names)]
    return {pod: f"{name} | ".encode() for pod, name in zip(pods, names, strict=True)}
