"""Signals that ask a command to stop, held back until it can stop without half-done work.

Kept apart because the start of the local cluster and a submission share it, and neither should load
the other.
"""

from __future__ import annotations

import signal
import threading
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill`, and the end of the terminal."""


class Interrupts:
    """Signals, held back while a step is under way that must not be cut short.

    After an interrupted write it is unknown whether the object exists. So the first signal waits
    until `raise_if_received` is called between two steps; a second signal, from a user who does
    not want to wait, interrupts at once. While `ignored`, no signal does.
    """

    def __init__(self) -> None:
        self.received = False
        self.ignored = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        # Python allows signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` and the like
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def raise_if_received(self) -> None:
        """Stop here, if a signal has come."""
        if self.received:
            raise KeyboardInterrupt

    def _on_signal(self, *_: object) -> None:
        second, self.received = self.received, True
        if second and not self.ignored:
            raise KeyboardInterrupt
