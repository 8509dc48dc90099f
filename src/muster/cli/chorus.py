"""Many logs at once, each line with the name of who said it: `logs --all`.

One thread and one connection per pod; lines are never torn, since each is written whole under one
lock. A log that cannot be read is told and does not end the others.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from muster.cli import follow, paint
from muster.cli.output import note
from muster.cli.screen import harmless
from muster.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.meta import Key
    from muster.cli.follow import Wanted
    from muster.kube.blocking import BlockingClient


class _Voice:
    """One pod's lines, with its prefix."""

    def __init__(self, prefix: bytes, lock: threading.Lock) -> None:
        self._prefix, self._lock = prefix, lock
        self._rest = b""

    def write(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines:
            self._print(lines)

    def end(self) -> None:
        if self._rest:
            self._print([self._rest])

    def _print(self, lines: Sequence[bytes]) -> None:
        if sys.stdout.isatty():
            lines = [harmless(line) for line in lines]
        data = b"".join(self._prefix + line + b"\n" for line in lines)
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


class _Chorus:
    """What the voices share."""

    def __init__(self, pods: Sequence[Key], wanted: Wanted) -> None:
        self._wanted = wanted
        self._width = max((len(pod.name) for pod in pods), default=0)
        self._coloured = paint.wanted(sys.stdout)
        self._lock = threading.Lock()
        self.failures: list[MusterError] = []
        self.unheard = threading.Event()
        """Set when nobody reads any more."""

    def part(self, connect: Callable[[], BlockingClient], number: int, pod: Key) -> None:
        """One pod's log, from its beginning to its end."""
        voice = _Voice(self._prefix(number, pod.name), self._lock)
        try:
            with connect() as client:
                follow.one(client, pod, self._wanted, voice.write)
            voice.end()
        except MusterError as error:
            note(f"{pod.name}: {error}", "warn")
            self.failures.append(error)
        except BrokenPipeError:
            self.unheard.set()

    def _prefix(self, number: int, name: str) -> bytes:
        name = name.ljust(self._width)
        if self._coloured:
            name = paint.colour(name, paint.PREFIXES[number % len(paint.PREFIXES)])
        return f"{name} | ".encode()


def sing(connect: Callable[[], BlockingClient], pods: Sequence[Key], wanted: Wanted) -> None:
    """Write all logs: one after the other, or side by side while they grow with `follow`."""
    chorus = _Chorus(pods, wanted)
    if wanted.follow:
        threads = [
            threading.Thread(target=chorus.part, args=(connect, *row), daemon=True)
            for row in enumerate(pods)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not chorus.unheard.wait(0.1):
            pass
    else:
        for number, pod in enumerate(pods):
            chorus.part(connect, number, pod)
    if chorus.unheard.is_set():
        raise BrokenPipeError
    if pods and len(chorus.failures) == len(pods):
        raise chorus.failures[-1]
