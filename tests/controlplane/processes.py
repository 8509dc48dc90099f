"""Child processes of a test: logged, awaited, and always ended.

A child ends with the process that started it, even if SIGKILL ends that process. A start that fails
reports the end of the child's log. A lost race for a port is tried again.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# Runs in the child before it becomes the program (not as preexec_fn, which forks Python code into a
# process that may have threads): PR_SET_PDEATHSIG survives exec, and covers the parent's SIGKILL.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

START_SECONDS = 60.0
PORT_ATTEMPTS = 5


class StartFailed(Exception):
    """A process ended or did not become ready; the message has the end of its log."""


class Child:
    """One running process, its output in `log`."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.name = log.stem
        self.log = log
        guard = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        # The kernel ties the child to the *thread* that starts it: start clusters from a thread
        # that lives as long as they should. An own process group keeps Ctrl-C for the test runner,
        # which then stops the child.
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [*guard, *command],
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def lost_port(self) -> bool:
        """Whether it ended because another process uses its port."""
        return not self.is_running() and "address already in use" in self._output()

    def await_ready(self, ready: Callable[[], bool]) -> None:
        """Return once `ready()`; otherwise kill the child and raise StartFailed."""
        try:
            until(
                lambda: not self.is_running() or ready(),
                timeout=START_SECONDS,
                every=0.05,
                what=f"{self.name} is ready",
            )
        except AssertionError:
            self.kill()
            raise StartFailed(self._failure(f"was not ready in {START_SECONDS:.0f} s")) from None
        if not self.is_running():
            raise StartFailed(self._failure(f"ended with {self._process.returncode}"))

    def _failure(self, what: str) -> str:
        tail = "\n".join(self._output().splitlines()[-25:])
        return f"{self.name} {what}; the end of its log:\n{tail}"

    def _output(self) -> str:
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")


def start_on_free_port(start: Callable[[int], Child], ready: Callable[[int], bool]) -> int:
    """Start a server on a free port; if another process takes it first, on another."""
    for _ in range(PORT_ATTEMPTS - 1):
        port = free_port()
        child = start(port)
        try:
            child.await_ready(partial(ready, port))
        except StartFailed:
            if not child.lost_port():
                raise
        else:
            return port
    port = free_port()
    start(port).await_ready(partial(ready, port))
    return port


def free_port() -> int:
    """A loopback port free at this moment.

    Below the range from which the kernel takes the ports of outgoing connections, so that a server
    which is killed and started again on its port does not find it taken by somebody's client
    meanwhile.
    """
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
