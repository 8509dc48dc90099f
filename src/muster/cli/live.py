"""A view that stays on the screen: drawn again while what it shows changes.

Used by `list -w`, `get -w` and `top -r`. On a terminal each drawing replaces the one before; in a
pipe a new one follows only when something other than the passing of time has changed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from muster.cli.output import note
from muster.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 1.0
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
    lines = text.replace("\n", "\x1b[K\n")
    print(f"{_HOME}{_CLEAR if first else ''}{lines}\x1b[K{_CLEAR}", flush=True)
