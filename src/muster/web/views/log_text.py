"""Bytes of a log -> lines that a browser can show as text.

A program may write anything: escape sequences, progress bars, a megabyte without a line break,
bytes that are not UTF-8. Colours and other escape sequences are removed, other control characters
become visible signs, and a line is cut at `MAX_LINE` bytes. The download has every byte.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_LINE = 8 * 1024
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"}
# Marks that change the direction of text can make a line look like another one.
_SIGNS = str.maketrans(
    {
        **_CONTROLS,
        0x7F: "\u2421",
        **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "�"),
    }
)


class LogLine(NamedTuple):
    pod: str
    text: str
    whole: bool = True
    """Whether the line has ended; else the pod's next line replaces it."""


def printable(data: bytes) -> str:
    """One line as text without escape sequences."""
    text = _ESCAPES.sub("", data.decode(errors="replace"))
    # A carriage return begins the line anew, as in progress bars.
    parts = [part for part in text.split("\r") if part]
    return parts[-1].translate(_SIGNS) if parts else ""


class LineReader:
    """The log of one pod: takes chunks, returns lines; holds at most one cut line."""

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._line = b""
        self._cut = 0
        """Bytes of the line that are not shown."""

    def feed(self, chunk: bytes) -> list[LogLine]:
        """The lines that end in this chunk, and the beginning of the next one."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for piece in ended:
            self._add(piece)
            lines.append(LogLine(self._pod, self._text()))
            self._line, self._cut = b"", 0
        if rest:
            self._add(rest)
            lines.append(LogLine(self._pod, self._text(), whole=False))
        return lines

    def _add(self, piece: bytes) -> None:
        line = self._line + piece
        shown = line.rstrip(b"\r")
        start = shown.rfind(b"\r") + 1
        if start:  # of a progress bar, only the last state is shown
            line, self._cut = line[start:], 0
        self._cut += max(0, len(line) - MAX_LINE)
        self._line = line[:MAX_LINE]

    def _text(self) -> str:
        text = printable(self._line)
        if not self._cut:
            return text
        return f"{text} … {self._cut:,} more bytes; the download has them"


def prefixed(data: bytes, prefix: bytes, *, fresh: bool) -> bytes:
    """A chunk of a log with a prefix before each line; `fresh` if it begins a line."""
    text = data.replace(b"\n", b"\n" + prefix)
    if data.endswith(b"\n"):
        text = text.removesuffix(prefix)
    return prefix + text if fresh else text
