"""The exit of a shim is noticed, whatever happens to its files and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.local.node.runtime.plain_runtime import PlainRuntime
from muster.local.node.runtime.pod_records import LOST, State

UID = "5e1f"


class Shim:
    """Stands in for a shim of a former daemon: its lock and its socket, let go of one by one."""

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


async def test_the_end_of_a_shim_is_its_free_lock_not_its_closed_socket(
    runtime: PlainRuntime, shim: Shim
) -> None:
    """The kernel lets go of a killed process's files in an order of its own."""
    seen: asyncio.Queue[State] = asyncio.Queue()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        watching = group.create_task(runtime.run(lambda _: seen.put_nowait(state(runtime))))
        async with shim.listening():
            (await shim.watchers.get()).close()
            (await shim.watchers.get()).close()  # it hung up, holds its lock, and is asked again
        shim.die()
        while await seen.get() is not State.EXITED:
            pass
        watching.cancel()

    last = runtime.records.read(UID).last("main")
    assert last is not None
    assert last.reason == LOST
