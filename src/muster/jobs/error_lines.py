"""The lines of a log that name the error: those at its end, and the one line that names it best.

Programs write their error last, but launchers follow it with their own reports. Open MPI writes
boxes of text between two dashed lines, its other ranks write rows that begin with `[host:pid] ***`,
its libraries write `[host:pid] PMIX ERROR: …`. torchrun logs how it stops the other processes and
fails with its own exception. Such a report may be the error itself (no such program, a rank
killed by a signal) or only say that a rank failed: then it is left out, unless there is nothing
else.

The line that names the error best is the exception at the end of a Python traceback: other ranks
may write further lines until they are stopped. Without a traceback it is the last line.

When one replica dies, the collective operations of the others fail a moment later: their errors say
that a peer is gone. Such an error is a consequence; the replica that died first is the cause.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINES_TO_READ = 80
"""Lines at the end of a log in which the error is searched: launchers write many after it."""
MAX_LINES = 10
"""Lines that explain a failure, in a job's status and in views."""
_MAX_LENGTH = 300
_CUT_LENGTH = 2000
"""Bytes from which a message may be cut: the kubelet takes the last 2048 bytes of a log."""
_RULE = "-" * 70
_CONSEQUENCES = (
    "MPI_ABORT was invoked",
    "has exited due to process rank",
    "exited with non-zero status",
    "returned a non-zero exit code",
    "*** An error occurred in Socket closed",
    "failed to TCP connect to a peer MPI process",
    "An MPI communication peer process has unexpectedly disconnected",
)
# Patterns are compiled when they are first used: most commands meet no job that failed.
_OF_RANK = r"\[[^]]+] \*\*\* "
_OF_LAUNCHER = (
    r"\[[^]]+] (?:PMIX|PRTE|PRRTE|OPAL|ORTE) ERROR: "
    # torchrun, in the formats of its versions
    r"|(?:WARNING|ERROR):torch\.distributed\."
    r"|\[[-\d :,]+] torch\.distributed\."
    r"|[WE]\d{4} .*torch/distributed/"
    # the rules of torchrun, MPICH and Intel MPI
    r"|={30,}$|=   "
)
_TORCHRUN_FAILED = "ChildFailedError:"
_TRACEBACK = "Traceback (most recent call last):"
_TAG = r"\[[^]]+](?:<std\w+>)?: ?"
"""The rank before each line, as `mpirun --tag-output` and `torchrun --tee` write it."""
_FRAME = r'File ".*", line \d+'
_EXCEPTION = r"[A-Za-z_][\w.]*(?::|$)"
_PEER_GONE = (
    # sockets, in the words of C, Python, gloo and gRPC
    r"(?i)(?:closed|reset|aborted) (?:the connection )?by (?:remote )?peer|broken pipe"
    r"|socket closed|peer closed the connection|connection refused|connection (?:to \S+ )?lost"
    r"|ConnectionResetError|BrokenPipeError|ConnectionAbortedError"
    r"|failed to recv, got 0 bytes|failed to connect to all addresses"
    # NCCL and PyTorch
    r"|remote process exit|NCCL communicator was aborted|collective operation timeout"
    r"|DistNetworkError|DistStoreError|Rendezvous(?:Connection|Timeout|Closed)Error|pair closure"
    r"|waiting \d+ms for (?:send|recv) operation"
    # TensorFlow and JAX
    r"|UnavailableError|\bUNAVAILABLE: |Collective ops is aborted|coordination[ _]?service"
    r"|distributed service detected fatal errors|another task died|heartbeat timeout"
    # mpirun
    r"|lost communication with a remote daemon|exited on signal"
)


def last_line(text: str) -> str:
    """The line that names the error best, in bounds; empty if the text is."""
    return telling_line(useful_lines(text))


def last_lines(text: str, count: int = MAX_LINES) -> list[str]:
    """The last useful lines; if these do not name the error, those up to the line that does."""
    rows = useful_lines(text)
    telling = _telling(rows)
    end = len(rows) if len(rows) - telling <= count else telling + 1
    return rows[max(0, end - count) : end]


def telling_line(rows: Sequence[str]) -> str:
    """The exception that ends the last traceback, else the last line; empty without lines."""
    return rows[_telling(rows)].strip() if rows else ""


def useful_lines(text: str) -> list[str]:
    """The lines in bounds, without NUL bytes, dashed lines and reports that name no cause."""
    rows = _rows(text)
    return _trimmed(_telling_blocks(rows)) or _trimmed(_blocks(rows))


def has_lost_the_error(message: str) -> bool:
    """Whether a message from the end of a log is cut, and only reports of the launcher are left.

    Many ranks write many boxes. The error is in the log above them.
    """
    if len(message.encode()) < _CUT_LENGTH:
        return False
    rows = _rows(message)
    # A box stands between two rules: with an odd number the text begins within a box.
    begins_in_box = sum(row.startswith(_RULE) for row in rows) % 2
    return next(_exceptions(rows), None) is None and not _trimmed(
        _telling_blocks(rows, begins_in_box)
    )


def names_lost_peer(text: str) -> bool:
    """Whether the last lines say that a peer is gone: of a traceback, its exception and the rest.

    An earlier line is about something that the program survived.
    """
    if not re.search(_PEER_GONE, text):
        return False  # most failures, without a look at the lines
    rows = last_lines(text)
    exception = max(_exceptions(rows), default=0)
    return any(re.search(_PEER_GONE, row) for row in rows[exception:])


def _telling(rows: Sequence[str]) -> int:
    """The index of the line that names the error best."""
    return max(_exceptions(rows), default=max(0, len(rows) - 1))


def _exceptions(rows: Sequence[str]) -> Iterator[int]:
    """The indexes of the lines that end a traceback, whose beginning may be missing."""
    margin: int | None = None  # of the traceback that is being read
    for index, row in enumerate(rows):
        text = re.sub(_TAG, "", row, count=1)
        indent = len(text) - len(text.lstrip())
        if text.strip() == _TRACEBACK:
            margin = indent
        elif margin is None and re.match(_FRAME, text.lstrip()):
            margin = max(0, indent - 2)
        elif margin is not None and text and indent <= margin:
            margin = None
            if re.match(_EXCEPTION, text.lstrip()) and not text.endswith(_TORCHRUN_FAILED):
                yield index


def _rows(text: str) -> list[str]:
    # The last piece of Open MPI's output ends with the NUL of its C string.
    return [row.rstrip()[:_MAX_LENGTH] for row in text.replace("\0", "").rstrip().splitlines()]


def _telling_blocks(rows: list[str], skip: int = 0) -> list[list[str]]:
    """The blocks after the first `skip` that are not mere consequences of a rank's failure."""
    of_programs = [row for row in _without_torchrun(rows) if not re.match(_OF_LAUNCHER, row)]
    return [
        block
        for block in _blocks(of_programs)[skip:]
        if not any(phrase in " ".join(block[:2]) for phrase in _CONSEQUENCES)
    ]


def _without_torchrun(rows: list[str]) -> list[str]:
    """The rows without torchrun's own traceback and summary, if there is an exception besides.

    Else the summary may tell more: it names a signal, or quotes the exception of the process.
    """
    failed = next((i for i, row in enumerate(rows) if row.endswith(_TORCHRUN_FAILED)), None)
    if failed is None:
        return rows
    heads = [i for i, row in enumerate(rows[:failed]) if row == _TRACEBACK]
    # The summary stands between two rules.
    rules = [i for i, row in enumerate(rows) if i > failed and row and not row.strip("=")]
    end = rules[1] + 1 if len(rules) > 1 else len(rows)
    others = [*rows[: heads[-1] if heads else 0], *rows[end:]]
    return others if next(_exceptions(others), None) is not None else rows


def _blocks(rows: list[str]) -> list[list[str]]:
    """Rows that belong together, in order: those between dashed lines, and those of one rank."""
    blocks: list[list[str]] = [[]]
    rank = ""
    for row in rows:
        match = re.match(_OF_RANK, row)
        before, rank = rank, match[0] if match else ""
        if row.startswith(_RULE) or rank != before:
            blocks.append([])
        if not row.startswith(_RULE):
            blocks[-1].append(row)
    return blocks


def _trimmed(blocks: list[list[str]]) -> list[str]:
    """The rows of all blocks, without blank rows at both ends."""
    return "\n".join(row for block in blocks for row in block).strip("\n").splitlines()
