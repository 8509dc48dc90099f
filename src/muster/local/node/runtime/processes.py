"""Starts and kills the processes that run beside the daemon.

Programs of `standalone/` start in an isolated interpreter (`-I -S`) with an empty environment: they
must not depend on the user's Python settings, and must start fast. They are started by posix_spawn
because a fork of the daemon, with its threads and its memory, is slow and unsafe.

The daemon raises its own limit of descriptors; programs keep the limit of the user's shell.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import muster
from muster.local.node.standalone.linux import files, kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE = str(Path(muster.__file__).parents[1])
_RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from muster.local.node.standalone import {0}; sys.exit({0}.main())"
)
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_DESCRIPTORS_FROM = 64
_EXIT_TIMEOUT, _REAP_TIMEOUT = 10.0, 1.0
_user_limit: tuple[int, int] | None = None
"""The limits of descriptors before the daemon raised its own."""


def raise_descriptor_limit() -> None:
    """Let this process open as many descriptors as the machine allows."""
    global _user_limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # it then works with the limit it has
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _user_limit = (soft, hard)


def start_program(program: str, arguments: list[str], fds: dict[int, int], errors: Path) -> int:
    """Start a standalone program with these descriptors; returns its PID."""
    argv = [sys.executable, "-I", "-S", "-c", _RUN.format(program), _SOURCE, *arguments]
    return spawn(argv, _ENV, fds, errors)


def spawn(argv: list[str], env: Mapping[str, str], fds: dict[int, int], errors: Path) -> int:
    """Start a program in its own session; `fds` maps its descriptors to ours. Returns its PID."""
    # Copies with high numbers: one dup2 must not overwrite the source of the next.
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
    try:
        pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True)
        # Long before the program starts another one. Some programs go through all descriptors up
        # to the soft limit, or cannot use those above 1024.
        if _user_limit is not None:
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, _user_limit)
        return pid
    finally:
        for fd in copies.values():
            os.close(fd)


def last_line(errors: Path) -> str:
    """The last line that a program wrote to its error file."""
    lines = errors.read_text(errors="replace").split("\n") if errors.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it exited without a message")


def save_pid(record: Path, pid: int, **details: Any) -> None:
    """Save the identity of a process: PIDs are reused, so it includes start time and boot."""
    identity = {"pid": pid, "started": kernel.start_time(pid), "boot": kernel.boot_id()}
    files.write_atomically(record, json.dumps(identity | details))


def saved_pid(record: Path) -> int:
    """The PID of the process that was saved; 0 if it does not run any more."""
    saved = files.read_json(record)
    if saved.get("boot") != kernel.boot_id() or kernel.start_time(saved["pid"]) != saved["started"]:
        return 0
    return int(saved["pid"])


def kill_saved(record: Path) -> None:
    """Kill the process that was saved, if it still runs, and remove the record."""
    pid = saved_pid(record)
    if pid:
        kill_and_wait(pid)
    record.unlink(missing_ok=True)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_and_wait(pid: int) -> bool:
    """Kill a process and wait until it is gone; False if it is not gone in time.

    The first process of a pod stays until every process of the pod is reaped. The first process of
    the machine may never reap: in a container it is often a program that does not know of it.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    start = time.monotonic()
    with open(handle):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        while not (gone := bool(select.select([handle], [], [], 0.02)[0])):
            waited = time.monotonic() - start
            if waited > _EXIT_TIMEOUT:
                break
            kernel.reap_orphans()  # the zombies of the pod that became our children
            if waited > _REAP_TIMEOUT and (gone := kernel.is_ending_pid_namespace(pid)):
                break
    with contextlib.suppress(ChildProcessError):  # the child of an earlier daemon belongs to init
        os.waitpid(pid, os.WNOHANG)
    return gone
