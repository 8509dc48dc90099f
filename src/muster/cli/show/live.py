"""A view that is redrawn while its content changes: `list -w`, `get -w`, `top -r`.

On a terminal each frame replaces the one before, cut to the height of the terminal. In a pipe a new
frame follows only when its state has changed, not when only time has passed.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from kubekit.request_errors import NotFound, Unreachable
from muster.cli.show.messages import note

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 1.0
_COLOUR = r"\x1b\[[0-9;]*m"
_HOME, _CLEAR = "\x1b[H", "\x1b[J"


class Frame(msgspec.Struct, frozen=True):
    """The text of a view, and the state that must change for it to be printed again."""

    text: str
    state: object
    data: object = None
    """The content for JSON or YAML; several frames are written as one list."""


def show(look: Callable[[], Frame], *, watch: bool, every: float = EVERY) -> None:
    """Print the view; with `watch`, redraw it until Ctrl-C."""
    if watch:
        _redraw_until_interrupted(look, every)
    elif text := look().text:
        print(text)


def _redraw_until_interrupted(look: Callable[[], Frame], every: float) -> None:
    """A cluster that becomes unreachable after the first frame is waited for."""
    terminal = sys.stdout.isatty()
    last: object = None
    unreachable = False
    while True:
        try:
            frame = look()
        except NotFound as error:
            if last is None:
                raise
            raise NotFound("the object was deleted") from error
        except Unreachable as error:
            if last is None:
                raise
            if not unreachable:
                note(f"waiting for the cluster: {error}")
            unreachable = True
        else:
            unreachable = False
            if terminal:
                _redraw(frame.text, first=last is None)
            elif frame.state != last:
                print(f"\n{frame.text}" if last is not None else frame.text, flush=True)
            last = frame.state
        time.sleep(every)


def _redraw(text: str, *, first: bool) -> None:
    """Overwrite the last frame line by line: clearing the screen first would flicker."""
    lines = _fitting(text).replace("\n", "\x1b[K\n")
    print(f"{_HOME}{_CLEAR if first else ''}{lines}\x1b[K{_CLEAR}", flush=True)


def _fitting(text: str) -> str:
    """As many lines as fit on the terminal, and the number of lines left out."""
    import shutil

    columns, rows = shutil.get_terminal_size()
    height = max(1, rows - 1)  # the cursor is in the last row
    lines = text.split("\n")
    # The rows that each line takes, without its colour codes.
    heights = [max(1, -(-len(re.sub(_COLOUR, "", line)) // columns)) for line in lines]
    if sum(heights) <= height:
        return text
    count, used = 0, 1  # the line with the number of the others takes a row
    while used + heights[count] <= height:
        used += heights[count]
        count += 1
    rest = len(lines) - count
    return "\n".join([*lines[:count], f"… {rest} line{'s' * (rest != 1)} more"[:columns]])
