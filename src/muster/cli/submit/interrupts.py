"""Ctrl-C and SIGTERM, held back while a request is under way.

Used by `transaction`: a write that is torn apart leaves nobody knowing whether it happened. The
first signal is kept until `heed` is called between two requests; a second one, from somebody who
does not want to wait for the answer, interrupts at once. While `deaf`, none does.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Whether somebody wants us to stop."""

    def __init__(self) -> None:
        self.heard = False
        self.deaf = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def heed(self) -> None:
        """Stop here, if somebody wants us to."""
        if self.heard:
            raise KeyboardInterrupt

    def _hear(self, *_: object) -> None:
        again, self.heard = self.heard, True
        if again and not self.deaf:
            raise KeyboardInterrupt
