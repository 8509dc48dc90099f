"""Starting shims and talking to them.

Used by the namespaces runtime. A shim is given its lock already locked and its socket already
listening, so from the moment it exists it can be told apart from a dead one and be asked; there is
no window in which a crash of the daemon could lose it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import muster
from muster.local.node.standalone import shim_socket
from muster.local.node.standalone.shim import LISTENER, LOCK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SOURCE = str(Path(muster.__file__).parents[1])
_RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from muster.local.node.standalone import {0}; sys.exit({0}.main())"
)
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_DESCRIPTORS_FROM = 64


def start_program(program: str, arguments: list[str], fds: dict[int, int], errors: Path) -> int:
    """Start one of the standalone programs in its own session with those descriptors; its PID."""
    given = {
        number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTORS_FROM)
        for number, fd in fds.items()
    }
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_OPEN, 2, str(errors), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
    ]
    actions += [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in given.items()]
    argv = [sys.executable, "-I", "-S", "-c", _RUN.format(program), _SOURCE, *arguments]
    try:
        return os.posix_spawn(sys.executable, argv, _ENV, file_actions=actions, setsid=True)
    finally:
        for fd in given.values():
            os.close(fd)


def start_shim(folder: Path, spec: dict[str, Any], turn: dict[str, int]) -> int:
    """Start the shim of one attempt; the PID of the shim. The folder appears complete, or not.

    `turn` is for whoever reads the attempt, not for the shim.
    """
    draft = folder.with_name(f".{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "root").mkdir(parents=True)
    (draft / "log").touch()
    (draft / "termination-log").touch()
    (draft / "spec").write_text(json.dumps(spec), encoding="utf-8")
    (draft / "turn").write_text(json.dumps(turn), encoding="utf-8")
    lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket(socket.AF_UNIX) as listener, _short(draft) as path:
            listener.bind(f"{path}/sock")
            listener.listen(16)
            draft.rename(folder)
            return start_program(
                "shim",
                [str(folder)],
                {LOCK: lock, LISTENER: listener.fileno()},
                folder / "shim.err",
            )
    finally:
        os.close(lock)


def kill_shim(folder: Path) -> None:
    """Kill the shim of an attempt: whoever has its lock open where a shim has it.

    A PID that was written down may be another's by now, and the kernel's own list of locks names
    the daemon, which took it. What is looked at here is what is killed, through its handle.
    """
    lock = folder / "lock"
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            with open(handle):
                if os.path.samefile(f"/proc/{pid}/fd/{LOCK}", lock):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)


@contextlib.contextmanager
def _short(folder: Path) -> Any:
    """A path to the folder short enough for a unix socket, however deep the folder is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


class ShimConnection:
    """A connection to one shim."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, channel: int, data: bytes) -> None:
        self._writer.write(shim_socket.frame(channel, data))
        await self._writer.drain()

    async def frames(self) -> AsyncIterator[tuple[int, bytes]]:
        """What the shim says, until it has no more to say."""
        frames = shim_socket.FrameReader()
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(64 * 1024):
                for frame in frames.feed(data):
                    yield frame


@contextlib.asynccontextmanager
async def connect_shim(folder: Path, **request: Any) -> AsyncIterator[ShimConnection]:
    """A connection that opens with this request; ConnectionError if no shim lives there."""
    try:
        with _short(folder) as path:
            reader, writer = await asyncio.open_unix_connection(f"{path}/sock")
    except FileNotFoundError as error:
        raise ConnectionRefusedError(str(folder)) from error
    try:
        shim = ShimConnection(reader, writer)
        await shim.send(shim_socket.ASK, json.dumps(request).encode())
        yield shim
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
