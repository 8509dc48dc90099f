"""Starts shims and connects to them.

A shim inherits its lock already locked and its socket already listening. So from its first moment
readers see that it is alive, and it accepts connections: no crash of the daemon can lose it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from localkube.node.runtime.processes import fork_program
from localkube.node.runtime.remove_tree import remove_tree
from localkube.node.standalone import shim_socket
from localkube.node.standalone.linux import files, kernel
from localkube.node.standalone.shim import LISTENER, LOCK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_START_SPACE = 512
_EXIT_SPACE = 8192
"""Bytes for the exit code and a message of up to 4 KiB."""


def start_shim(folder: Path, spec: dict[str, Any], placement: dict[str, int]) -> int:
    """Start the shim of one attempt; returns its PID. The folder appears complete or not at all.

    `placement` is for readers of the attempt's record; the shim does not use it.
    """
    # Readers see only folders with a number as name: the draft becomes visible by its rename.
    draft = folder.with_name(f".{folder.name}")
    remove_tree(draft)
    draft.mkdir(mode=0o700, parents=True)
    (draft / "root").mkdir()
    (draft / "log").touch()
    (draft / "termination-log").touch()
    # The container's `/` and its message file are for programs of any user in the pod.
    (draft / "root").chmod(0o755)
    (draft / "termination-log").chmod(0o666)
    # The shim must be able to record the start and the exit code on a full disk.
    files.write(files.draft_of(draft / "started"), " " * _START_SPACE)
    files.write(files.draft_of(draft / "exited"), " " * _EXIT_SPACE)
    (draft / "spec").write_text(json.dumps(spec), encoding="utf-8")
    (draft / "placement").write_text(json.dumps(placement), encoding="utf-8")
    lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket(socket.AF_UNIX) as listener, _short(draft) as path:
            listener.bind(f"{path}/sock")
            os.chmod(f"{path}/sock", 0o600)  # who may connect may run commands in the container
            listener.listen(16)
            # Renamed while we hold the lock: a reader never finds the attempt without a lock
            # holder. If we die before the shim starts, the lock is free and the attempt is lost.
            draft.rename(folder)
            try:
                descriptors = {LOCK: lock, LISTENER: listener.fileno()}
                return fork_program("shim", [str(folder)], descriptors, folder / "shim.err")
            except OSError:  # no process, so no attempt that could count as a failure
                folder.rename(draft)
                raise
    finally:
        # The lock belongs to the open file, which the shim shares: closing our descriptor does not
        # release it.
        os.close(lock)


def kill_shim(folder: Path) -> None:
    """Kill the shim of an attempt: the process that has the attempt's lock as descriptor `LOCK`.

    A recorded PID may belong to another process by now, and /proc/locks names the daemon, which
    took the lock. The pidfd makes sure that the process checked is the process killed.
    """
    lock = folder / "lock"
    for pid in kernel.pids():
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            with open(handle):
                if os.path.samefile(f"/proc/{pid}/fd/{LOCK}", lock):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)


@contextlib.contextmanager
def _short(folder: Path) -> Any:
    """A path to the folder that is short enough for a unix socket: Linux allows 107 bytes."""
    with files.opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        yield f"/proc/self/fd/{fd}"


class ShimConnection:
    """A connection to one shim."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, channel: int, data: bytes) -> None:
        self._writer.write(shim_socket.frame(channel, data))
        await self._writer.drain()

    async def frames(self) -> AsyncIterator[tuple[int, bytes]]:
        """The shim's frames, until it closes the connection."""
        frames = shim_socket.FrameReader()
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(64 * 1024):
                for frame in frames.feed(data):
                    yield frame


@contextlib.asynccontextmanager
async def connect_shim(folder: Path, **request: Any) -> AsyncIterator[ShimConnection]:
    """A connection that begins with this request; ConnectionError if the shim is gone."""
    try:
        with _short(folder) as path:
            reader, writer = await asyncio.open_unix_connection(f"{path}/sock")
    except FileNotFoundError as error:
        raise ConnectionRefusedError(str(folder)) from error
    try:
        shim = ShimConnection(reader, writer)
        await shim.send(shim_socket.REQUEST, json.dumps(request).encode())
        yield shim
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
