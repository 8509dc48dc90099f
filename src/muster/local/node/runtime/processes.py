"""Starting and killing the processes that run beside the daemon.

Programs of `standalone/` start in an isolated interpreter (`-I -S`) with an empty environment: they
must not depend on the user's Python settings, and must start fast.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import muster
from muster.local.node.standalone.linux import kernel

_SOURCE = str(Path(muster.__file__).parents[1])
_RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from muster.local.node.standalone import {0}; sys.exit({0}.main())"
)
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_DESCRIPTORS_FROM = 64
_EXIT_TIMEOUT = 10.0


def start_program(program: str, arguments: list[str], fds: dict[int, int], errors: Path) -> int:
    """Start a standalone program in its own session with these descriptors; returns its PID."""
    copies = {
        number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTORS_FROM)
        for number, fd in fds.items()
    }
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_OPEN, 2, str(errors), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
    ]
    actions += [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in copies.items()]
    argv = [sys.executable, "-I", "-S", "-c", _RUN.format(program), _SOURCE, *arguments]
    try:
        return os.posix_spawn(sys.executable, argv, _ENV, file_actions=actions, setsid=True)
    finally:
        for fd in copies.values():
            os.close(fd)


def last_line(errors: Path) -> str:
    """The last line that a program wrote to its error file."""
    lines = errors.read_text(errors="replace").split("\n") if errors.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it exited without a message")


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_and_wait(pid: int) -> bool:
    """Kill a process and wait until it is gone; False if it is not gone in time.

    The first process of a pod stays until every process of the pod is reaped.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    deadline = time.monotonic() + _EXIT_TIMEOUT
    with open(handle):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        while not (gone := bool(select.select([handle], [], [], 0.02)[0])):
            if time.monotonic() > deadline:
                break
            kernel.reap_orphans()
    with contextlib.suppress(ChildProcessError):  # the child of an earlier daemon belongs to init
        os.waitpid(pid, os.WNOHANG)
    return gone
