"""What both runtimes share: starting shims, watching them, finding them again.

One task per running container waits for its shim to exit, so an exit is seen at once. A restarted
daemon starts the same tasks for the containers that still run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from muster.local.node.runtime import shim_client
from muster.local.node.runtime.pod_records import AttemptKey, PodRecords
from muster.local.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from muster.api.meta import Raw
    from muster.local.node.runtime.cgroups import MemoryCgroups
    from muster.local.node.runtime.container_runtime import ContainerSpec
    from muster.local.node.runtime.pod_records import PodRecord

log = logging.getLogger(__name__)

_EXIT_TIMEOUT = 5.0
_POLL = 0.005


class ShimRuntime:
    """Pods below one data directory, each container with its shim."""

    def __init__(self, data_dir: Path, groups: MemoryCgroups | None = None) -> None:
        self._groups = groups
        self.records = PodRecords(data_dir / "pods")
        self._to_watch: asyncio.Queue[AttemptKey] = asyncio.Queue()
        self._children: dict[Path, int] = {}

    async def run(self, changed: Callable[[str], None]) -> None:
        for uid in self.uids():
            for name in self.read(uid).alive:
                self._to_watch.put_nowait(AttemptKey(uid, name, self.attempts(uid, name)[-1]))
        async with asyncio.TaskGroup() as group:
            while True:
                attempt = await self._to_watch.get()
                group.create_task(self._watch(attempt, changed))

    def uids(self) -> list[str]:
        return self.records.uids()

    def read(self, uid: str) -> PodRecord:
        return self.records.read(uid)

    async def stop(self, uid: str, container: str, grace: float) -> None:
        with contextlib.suppress(ConnectionError):
            async with self.connect_shim(uid, container, op="stop", grace=grace):
                pass

    def attempts(self, uid: str, container: str) -> list[int]:
        return self.records.attempts(uid, container)

    def folder(self, uid: str, container: str, number: int) -> Path:
        return self.records.attempt(uid, container, number)

    def connect_shim(
        self, uid: str, container: str, **request: Any
    ) -> AbstractAsyncContextManager[Any]:
        number = (self.records.attempts(uid, container) or [0])[-1]
        return shim_client.connect_shim(self.records.attempt(uid, container, number), **request)

    async def supervise(self, spec: ContainerSpec, body: Raw) -> None:
        """Start the shim of one attempt; `body` extends the shim's spec."""
        folder = self.folder(spec.uid, spec.name, spec.number)
        program = {
            "argv": spec.argv,
            "env": spec.env,
            "cwd": spec.cwd,
            "tty": spec.tty,
            "stdin": spec.stdin,
            "stdin_once": spec.stdin_once,
            "memory": self._memory_cgroup(spec),
            "message_from_log": spec.message_from_log,
        }
        record = self.read(spec.uid)
        before = record.current(spec.name)
        turn = {"sandbox": record.sandbox, "row": 0 if before is None else before.restarts + 1}
        start = partial(shim_client.start_shim, folder, program | body, turn)
        self._children[folder] = await asyncio.to_thread(start)
        self.records.forget_old_attempts(spec.uid, spec.name)
        self._to_watch.put_nowait(AttemptKey(spec.uid, spec.name, spec.number))

    def _memory_cgroup(self, spec: ContainerSpec) -> dict[str, str]:
        if self._groups is None or not spec.memory:
            return {}
        return self._groups.make(f"{spec.uid}.{spec.name}.{spec.number}", spec.memory)

    def remove_cgroups(self, uid: str) -> None:
        if self._groups is not None:
            self._groups.remove(f"{uid}.")

    async def wait_for_shims(self, uid: str, seconds: float | None = None) -> None:
        """Wait until all shims of the pod have written exit codes and exited, or for so long."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + (_EXIT_TIMEOUT if seconds is None else seconds)
        while self.records.supervised(uid) and clock() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL)

    async def end_shims(self, uid: str) -> None:
        """Wait for the shims of a pod whose processes were killed; kill shims that hang."""
        await self.wait_for_shims(uid)
        for folder in self.records.supervised(uid):
            log.warning("the shim in %s hangs, and is killed", folder)
            await asyncio.to_thread(shim_client.kill_shim, folder)
        await self.wait_for_shims(uid)

    async def _watch(self, attempt: AttemptKey, changed: Callable[[str], None]) -> None:
        """Report every message of a shim, and its exit.

        A shim has exited when its lock is free. The kernel closes the files of a killed process in
        any order: a shim that closed its socket may hold the lock a moment longer.
        """
        folder = self.folder(*attempt)
        while files.is_locked(folder / "lock"):
            with contextlib.suppress(ConnectionError):
                async with shim_client.connect_shim(folder, op="watch") as shim:
                    async for _ in shim.frames():
                        changed(attempt.uid)
            await asyncio.sleep(_POLL)  # there is no event for a released lock
        child = self._children.pop(folder, 0)
        if child:
            await asyncio.to_thread(os.waitpid, child, 0)
        changed(attempt.uid)
