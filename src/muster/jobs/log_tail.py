"""The lines at the end of a log that name the error.

Programs write their error last, but Open MPI's launcher follows it with boxes of text between two
dashed lines. A box may be the error itself (no such program, a rank killed by a signal) or only
report that a rank failed: such a box is left out, unless there is nothing else.
"""

from __future__ import annotations

_MAX_LENGTH = 300
_RULE = "-" * 70
_CONSEQUENCES = (
    "MPI_ABORT was invoked",
    "has exited due to process rank",
    "exited with non-zero status",
    "returned a non-zero exit code",
)


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
    """The text between dashed lines, in order: outside and inside of boxes in turn."""
    blocks: list[list[str]] = [[]]
    for row in rows:
        if row.startswith(_RULE):
            blocks.append([])
        else:
            blocks[-1].append(row)
    return blocks


def _is_consequence(block: list[str]) -> bool:
    head = " ".join(block[:2])
    return any(phrase in head for phrase in _CONSEQUENCES)


def _trimmed(rows: list[str]) -> list[str]:
    """Without blank rows at both ends."""
    return "\n".join(rows).strip("\n").splitlines()
