"""Many logs at once, each line with the name of who said it: `logs --all`.

One thread and one connection per pod; lines are never torn, since each is written whole under one
lock. A log that cannot be read is told and does not end the others.

What programs print, made harmless for a terminal: colours pass, other escape sequences are seen.

Used by `logs` and `chorus` where a person reads; a pipe gets the bytes as they are. A program's log
could otherwise move the cursor, set the title or answer for the reader.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import TYPE_CHECKING

from muster.cli.show import colour
from muster.cli.show.messages import note
from muster.client.jobs import logs
from muster.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.meta import Key
    from muster.client.jobs.logs import LogOptions
    from muster.kube.blocking_client import BlockingClient


# Tabs, line ends and the backspaces of progress bars are kept; C1 controls come as two bytes.
_HOSTILE = re.compile(
    rb"\x1b(?!\[[0-9;:]*m)|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
)
_UNFINISHED = re.compile(rb"(\x1b(\[[0-9;:]{0,64})?|\xc2)\Z")


def escape_controls(data: bytes) -> bytes:
    """Whole lines with everything but colours spelt out."""
    return _HOSTILE.sub(lambda found: repr(found[0])[2:-1].encode(), data)


class TerminalWriter:
    """Bytes to standard output as they come, in pieces of any size."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._rest = b""

    def write(self, data: bytes) -> None:
        if self._terminal:
            data = self._rest + data
            cut = _UNFINISHED.search(data)
            end = cut.start() if cut else len(data)
            self._rest, data = data[end:], escape_controls(data[:end])
        self._out(data)

    def end(self) -> None:
        """Nothing more comes: what was held back is no colour."""
        self._out(escape_controls(self._rest))

    def _out(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


class _PrefixedWriter:
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
            lines = [escape_controls(line) for line in lines]
        data = b"".join(self._prefix + line + b"\n" for line in lines)
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


class _LogPrinter:
    """What the voices share."""

    def __init__(self, pods: Sequence[Key], wanted: LogOptions) -> None:
        self._wanted = wanted
        self._width = max((len(pod.name) for pod in pods), default=0)
        self._coloured = colour.enabled(sys.stdout)
        self._lock = threading.Lock()
        self.failures: list[MusterError] = []
        self.unheard = threading.Event()
        """Set when nobody reads any more."""

    def part(self, connect: Callable[[], BlockingClient], number: int, pod: Key) -> None:
        """One pod's log, from its beginning to its end."""
        voice = _PrefixedWriter(self._prefix(number, pod.name), self._lock)
        try:
            with connect() as client:
                logs.read_log(client, pod, self._wanted, voice.write)
            voice.end()
        except MusterError as error:
            note(f"{pod.name}: {error}", "warn")
            self.failures.append(error)
        except BrokenPipeError:
            self.unheard.set()

    def _prefix(self, number: int, name: str) -> bytes:
        name = name.ljust(self._width)
        if self._coloured:
            name = colour.colour(name, colour.PREFIXES[number % len(colour.PREFIXES)])
        return f"{name} | ".encode()


def print_logs(
    connect: Callable[[], BlockingClient], pods: Sequence[Key], wanted: LogOptions
) -> None:
    """Write all logs: one after the other, or side by side while they grow with `follow`."""
    chorus = _LogPrinter(pods, wanted)
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
