"""Starts and kills the processes that run beside the daemon.

Programs of `standalone/` start in an isolated interpreter (`-I -S`) with an empty environment: they
must not depend on the user's Python settings, and must start fast. They are started by posix_spawn
because a fork of the daemon, with its threads and its memory, is slow and unsafe. The programs of
every pod (`pause`, `shim`) are forked by a small process of ours that has imported them already.

The daemon raises its own limit of descriptors; programs keep the limit of the user's shell.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import localkube
from localkube.node.standalone.linux import files, kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE = str(Path(localkube.__path__[0]).parent)
_RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from localkube.node.standalone import {0}; sys.exit({0}.main())"
)
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_DESCRIPTORS_FROM = 64
_MAX_COMMAND_LINE = 4096
_MAX_ANSWER = 1024
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
    return spawn(_command_line(program, arguments), _ENV, fds, errors)


def fork_program(program: str, arguments: list[str], fds: dict[int, int], errors: Path) -> int:
    """Like `start_program`, for a program of the fork server; `fds` leaves out no number."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with open(os.open(errors, flags, 0o644), "wb") as file, open(os.devnull, "r+b") as null:
        by_number = {0: null.fileno(), 1: null.fileno(), 2: file.fileno()} | fds
        sources = [fd for _, fd in sorted(by_number.items())]
        try:
            return _fork_server.fork(program, arguments, sources)
        except OSError:  # it cannot start, exits again at once, or may not fork in its way
            return start_program(program, arguments, fds, errors)


def _command_line(program: str, arguments: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _RUN.format(program), _SOURCE, *arguments]


class _ForkServer:
    """The process that forks programs: started when it is needed, and again after it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0

    def fork(self, program: str, arguments: list[str], files: list[int]) -> int:
        line = _command_line(program, arguments)
        request = {"program": program, "arguments": arguments, "command_line": line}
        message = json.dumps(request).encode()
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(_Gone):
                    return self._ask(self._socket, message, files)
                self._socket.close()
                kill_and_wait(self._pid)
            self._socket = self._start()
            return self._ask(self._socket, message, files)

    def _ask(self, server: socket.socket, message: bytes, files: list[int]) -> int:
        # The new process waits for a byte, and exits at end of file: no program runs whose PID we
        # do not know because the fork server was killed.
        gate, opener = os.pipe()
        with open(gate), open(opener, "wb", buffering=0) as go:
            try:
                socket.send_fds(server, [message], [gate, *files])
                answer = json.loads(server.recv(_MAX_ANSWER) or "null")
            except ConnectionError as error:
                raise _Gone from error
            if answer is None:
                raise _Gone
            if "errno" in answer:
                raise OSError(answer["errno"], os.strerror(answer["errno"]))
            _restore_user_limit(answer["pid"])
            go.write(b"\n")
            return int(answer["pid"])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # The spaces make room for the command lines of the programs that it becomes.
            room = [" " * _MAX_COMMAND_LINE]
            fds = {0: theirs.fileno()}
            self._pid = start_program("fork_server", room, fds, Path(os.devnull))
        return ours

    def close(self) -> None:
        """Let the fork server exit; it does so too when this process is killed."""
        if self._socket is not None:
            self._socket.close()


class _Gone(OSError):
    """The fork server does not run any more."""


_fork_server = _ForkServer()
atexit.register(_fork_server.close)


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
    finally:
        for fd in copies.values():
            os.close(fd)
    _restore_user_limit(pid)
    return pid


def _restore_user_limit(pid: int) -> None:
    """Give a new process the user's limit of descriptors, long before it starts another program.

    Some programs go through all descriptors up to the soft limit, or cannot use those above 1024.
    """
    if _user_limit is not None:
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _user_limit)


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
