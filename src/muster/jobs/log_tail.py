"""The lines at the end of a log that name the error.

Programs write their error last, but Open MPI's launcher follows it with boxes of text between two
dashed lines, and its other ranks with rows that begin with `[host:pid] ***`. Such a block may be
the error itself (no such program, a rank killed by a signal) or only report that a rank failed:
then it is left out, unless there is nothing else.
"""

from __future__ import annotations

import re

_MAX_LENGTH = 300
_RULE = "-" * 70
_CONSEQUENCES = (
    "MPI_ABORT was invoked",
    "has exited due to process rank",
    "exited with non-zero status",
    "returned a non-zero exit code",
    "*** An error occurred in Socket closed",
)
_OF_RANK = re.compile(r"\[[^]]+] \*\*\* ")


def last_line(text: str) -> str:
    """The last line that names the error, in bounds; empty if the text is."""
    return "".join(useful_lines(text)[-1:]).strip()


def useful_lines(text: str) -> list[str]:
    """The lines in bounds, without NUL bytes, dashed lines and boxes that name no cause."""
    # The last piece of Open MPI's output ends with the NUL of its C string.
    rows = text.replace("\0", "").rstrip().splitlines()
    blocks = _blocks([row.rstrip()[:_MAX_LENGTH] for row in rows])
    useful = [row for block in blocks if not _is_consequence(block) for row in block]
    return _trimmed(useful) or _trimmed([row for block in blocks for row in block])


def _blocks(rows: list[str]) -> list[list[str]]:
    """Rows that belong together, in order: those between dashed lines, and those of one rank."""
    blocks: list[list[str]] = [[]]
    rank = ""
    for row in rows:
        match = _OF_RANK.match(row)
        before, rank = rank, match[0] if match else ""
        if row.startswith(_RULE) or rank != before:
            blocks.append([])
        if not row.startswith(_RULE):
            blocks[-1].append(row)
    return blocks


def _is_consequence(block: list[str]) -> bool:
    head = " ".join(block[:2])
    return any(phrase in head for phrase in _CONSEQUENCES)


def _trimmed(rows: list[str]) -> list[str]:
    """Without blank rows at both ends."""
    return "\n".join(rows).strip("\n").splitlines()
