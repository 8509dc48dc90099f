"""What is evaluated, what comes out of it, and how both travel between processes."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO


class Result(NamedTuple):
    """The value of an expression, or an error."""

    value: Any = None
    error: str = ""


class Batch(NamedTuple):
    """Expressions over the same values."""

    values: Mapping[str, Any]
    expressions: Sequence[str]
    variables: Sequence[tuple[str, str]] = ()
    """Names and expressions of `variables`, each evaluated when the first expression needs it."""
    with_times: bool = False
    """Whether there are times or durations inside of the values."""


Evaluate = Callable[[Sequence[Batch]], Awaitable[list[list[Result]]]]
"""Evaluates batches, here or in another process."""
TOO_MUCH = "operation cancelled: actual cost limit exceeded"
"""The error of an expression that uses up its time or its memory."""
RESULTS, QUESTION = "results", "question"
"""The two kinds of answers to a batch: a question is asked before there are results."""


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    pickle.dump(message, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message; EOFError if the other side is gone."""
    return pickle.load(stream)
