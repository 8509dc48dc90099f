"""Colours: words that mean good, bad or waiting, and prefixes of log lines.

Only on a terminal that is not dumb, and unless NO_COLOR is set.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

GREEN, YELLOW, RED = "32", "33", "31"
PREFIXES = ("36", "35", "33", "32", "34", "96", "95", "93", "92", "94")
"""Colours that distinguish several logs."""

_MEANING = {
    GREEN: ("RUNNING", "SUCCEEDED", "Running", "Completed", "Succeeded", "Ready"),
    YELLOW: (
        "PENDING", "SUSPENDED", "Pending", "ContainerCreating", "PodInitializing", "Terminating",
    ),
    RED: (
        "FAILED", "Failed", "Error", "OOMKilled", "CrashLoopBackOff", "ImagePullBackOff",
        "ErrImagePull", "Evicted", "NotReady", "Unknown", "StartError", "RESTARTING",
    ),
}  # fmt: skip
_COLOURS = {word: colour for colour, words in _MEANING.items() for word in words}


def enabled(stream: TextIO) -> bool:
    """Whether this stream shows colours."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and stream.isatty()


def colour(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def colour_cells(line: str, cells: Iterable[str]) -> str:
    """A line of a table in which cells that are one of the coloured words are coloured."""
    for cell in cells:
        if cell in _COLOURS:
            # Once, and not within a longer word.
            word = re.compile(rf"(?<!\S){re.escape(cell)}(?!\S)")
            line = word.sub(colour(cell, _COLOURS[cell]), line, count=1)
    return line
