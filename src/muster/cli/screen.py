"""What programs print, made harmless for a terminal: colours pass, other escape sequences are seen.

Used by `logs` and `chorus` where a person reads; a pipe gets the bytes as they are. A program's log
could otherwise move the cursor, set the title or answer for the reader.
"""

from __future__ import annotations

import re
import sys

# Tabs, line ends and the backspaces of progress bars are kept; C1 controls come as two bytes.
_HOSTILE = re.compile(
    rb"\x1b(?!\[[0-9;:]*m)|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
)
_UNFINISHED = re.compile(rb"(\x1b(\[[0-9;:]{0,64})?|\xc2)\Z")


def harmless(data: bytes) -> bytes:
    """Whole lines with everything but colours spelt out."""
    return _HOSTILE.sub(lambda found: repr(found[0])[2:-1].encode(), data)


class Screen:
    """Bytes to standard output as they come, in pieces of any size."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._rest = b""

    def write(self, data: bytes) -> None:
        if self._terminal:
            data = self._rest + data
            cut = _UNFINISHED.search(data)
            end = cut.start() if cut else len(data)
            self._rest, data = data[end:], harmless(data[:end])
        self._out(data)

    def end(self) -> None:
        """Nothing more comes: what was held back is no colour."""
        self._out(harmless(self._rest))

    def _out(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
