"""Log lines on a terminal: prefixed with their pod, and made harmless.

A program's log could otherwise move the cursor, set the title or answer for the reader: on a
terminal colours pass and other escape sequences are spelt out. A pipe gets the bytes unchanged.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from muster.cli.show.table import PREFIXES, colour, shows_colours
from muster.client.logs.job_logs import whole_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.meta import Key

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


def print_log(chunks: Iterable[bytes]) -> bool:
    """Bytes to standard output as they come, in chunks of any size; whether there were any."""
    terminal, printed = sys.stdout.isatty(), False
    rest = b""
    for chunk in chunks:
        printed = printed or bool(chunk)
        if not terminal:
            _write(chunk)
            continue
        data = rest + chunk
        cut = _UNFINISHED.search(data)
        end = cut.start() if cut else len(data)
        rest = data[end:]
        _write(escape_controls(data[:end]))
    _write(escape_controls(rest))
    return printed


def print_logs(chunks: Iterable[tuple[Key, bytes]], pods: Sequence[Key]) -> bool:
    """The lines of several logs, each whole and with its pod's name; whether there were any."""
    prefixes, printed = _Prefixes(pods), False
    for pod, lines in whole_lines(chunks):
        if sys.stdout.isatty():
            lines = [escape_controls(line) for line in lines]
        printed = True
        _write(b"".join(prefixes[pod] + line + b"\n" for line in lines))
    return printed


class _Prefixes(dict["Key", bytes]):
    """The name of each pod as the start of a line, as wide as the names known at the start."""

    def __init__(self, pods: Sequence[Key]) -> None:
        self._width = max((len(pod.name) for pod in pods), default=0)
        self._coloured = shows_colours(sys.stdout)
        for pod in pods:
            self[pod]  # in this order the pods get their colours

    def __missing__(self, pod: Key) -> bytes:
        name = pod.name.ljust(self._width)
        if self._coloured:
            name = colour(name, PREFIXES[len(self) % len(PREFIXES)])
        self[pod] = f"{name} | ".encode()
        return self[pod]
