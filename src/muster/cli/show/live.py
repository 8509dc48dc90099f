"""A view that stays on the screen: drawn again while what it shows changes.

Used by `list -w`, `get -w` and `top -r`. On a terminal each drawing replaces the one before, and is
cut where the terminal ends; in a pipe a new one follows only when something other than the passing
of time has changed.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from muster.cli.show.messages import note
from muster.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 1.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HOME, _CLEAR = "\x1b[H", "\x1b[J"


class Frame(NamedTuple):
    """One drawing, and what must differ for it to be news."""

    text: str
    state: object
    data: object = None
    """The same for a machine to read; whoever draws several writes them as one."""


def show(look: Callable[[], Frame], *, every: float = EVERY) -> None:
    """Draw until the reader has seen enough (Ctrl-C); a cluster that is away is waited for."""
    terminal = sys.stdout.isatty()
    last: object = None
    away = False
    while True:
        try:
            frame = look()
        except NotFound as error:
            if last is None:
                raise
            raise NotFound("what was shown has been deleted meanwhile", status=404) from error
        except Unreachable as error:
            if last is None:
                raise
            if not away:
                note(f"waiting for the cluster: {error}")
            away = True
        else:
            away = False
            if terminal:
                _redraw(frame.text, first=last is None)
            elif frame.state != last:
                print(f"\n{frame.text}" if last is not None else frame.text, flush=True)
            last = frame.state
        time.sleep(every)


def _redraw(text: str, *, first: bool) -> None:
    """Over the drawing before, line by line, so that nothing flickers."""
    lines = _fitting(text).replace("\n", "\x1b[K\n")
    print(f"{_HOME}{_CLEAR if first else ''}{lines}\x1b[K{_CLEAR}", flush=True)


def _fitting(text: str) -> str:
    """As many lines as the terminal shows at once, and how many are left out."""
    import shutil

    columns, rows = shutil.get_terminal_size()
    room = max(1, rows - 1)  # the cursor waits in the last one
    lines = text.split("\n")
    heights = [_height(line, columns) for line in lines]
    if sum(heights) <= room:
        return text
    kept, used = 0, 1
    while used + heights[kept] <= room:
        used += heights[kept]
        kept += 1
    rest = len(lines) - kept
    return "\n".join([*lines[:kept], f"… {rest} line{'s' * (rest != 1)} more"[:columns]])


def _height(line: str, columns: int) -> int:
    """The rows a line takes, with its colours left aside."""
    return max(1, -(-len(_COLOUR.sub("", line)) // columns))
