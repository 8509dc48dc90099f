"""The runtime notices the exit of a shim, in whatever order its files and sockets close."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localkube.node.runtime.plain_runtime import PlainRuntime
from localkube.node.runtime.pod_records import LOST, State

UID = "5e1f"


class Shim:
    """Stands in for a shim of an earlier daemon: its lock and its socket, closed one by one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.watchers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self._folder = folder
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.watchers.put_nowait(writer)

        async with await asyncio.start_unix_server(accept, self._folder / "sock"):
            yield

    def die(self) -> None:
        os.close(self._lock)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainRuntime:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    return PlainRuntime(Path())


@pytest.fixture
def shim(runtime: PlainRuntime) -> Shim:
    return Shim(runtime.records.attempt(UID, "main", 0))


def state(runtime: PlainRuntime) -> State:
    last = runtime.records.read(UID).last("main")
    assert last is not None
    return last.state


async def test_a_shim_has_exited_when_its_lock_is_free_not_when_its_socket_is_closed(
    runtime: PlainRuntime, shim: Shim
) -> None:
    """The kernel closes the files of a killed process in any order."""
    states: asyncio.Queue[State] = asyncio.Queue()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        watch = group.create_task(runtime.run(lambda _: states.put_nowait(state(runtime))))
        async with shim.listening():
            (await shim.watchers.get()).close()
            (await shim.watchers.get()).close()  # its lock is held, so it is watched again
        shim.die()
        while await states.get() is not State.EXITED:
            pass
        watch.cancel()

    last = runtime.records.read(UID).last("main")
    assert last is not None
    assert last.reason == LOST
