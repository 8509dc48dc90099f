"""What every runtime does alike: shims are started, watched, asked and found again.

The runtimes `namespaces` and `plain` are made of it. One task per living container waits for its
shim to end, so an exit is seen at once; after a restart of the daemon the same tasks are made for
the containers found alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from muster.local.node.probes.tasks import AttemptKey
from muster.local.node.runtime import shims
from muster.local.node.runtime.pod_records import PodRecords, is_locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from muster.api.meta import Raw
    from muster.local.node.runtime.cgroups import MemoryCgroups
    from muster.local.node.runtime.interface import ContainerSpec
    from muster.local.node.runtime.pod_records import PodRecord

log = logging.getLogger(__name__)

_ENDING = 5.0
_LETTING_GO = 0.005


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
                place = await self._to_watch.get()
                group.create_task(self._watch(place, changed))

    def uids(self) -> list[str]:
        return self.records.uids()

    def read(self, uid: str) -> PodRecord:
        return self.records.read(uid)

    async def stop(self, uid: str, container: str, grace: float) -> None:
        with contextlib.suppress(ConnectionError):
            async with self.ask(uid, container, op="stop", grace=grace):
                pass

    def attempts(self, uid: str, container: str) -> list[int]:
        return self.records.attempts(uid, container)

    def folder(self, uid: str, container: str, number: int) -> Path:
        return self.records.attempt(uid, container, number)

    def ask(self, uid: str, container: str, **request: Any) -> AbstractAsyncContextManager[Any]:
        number = (self.records.attempts(uid, container) or [0])[-1]
        return shims.connect_shim(self.records.attempt(uid, container, number), **request)

    async def supervise(self, spec: ContainerSpec, body: Raw) -> None:
        """Start the shim of one attempt; `body` is what it is told besides the program."""
        folder = self.folder(spec.uid, spec.name, spec.number)
        program = {
            "argv": spec.argv,
            "env": spec.env,
            "cwd": spec.cwd,
            "tty": spec.tty,
            "stdin": spec.stdin,
            "stdin_once": spec.stdin_once,
            "memory": self._limited(spec),
            "message_from_log": spec.message_from_log,
        }
        record = self.read(spec.uid)
        before = record.current(spec.name)
        turn = {"sandbox": record.sandbox, "row": 0 if before is None else before.row + 1}
        start = partial(shims.start_shim, folder, program | body, turn)
        self._children[folder] = await asyncio.to_thread(start)
        self.records.forget_old_attempts(spec.uid, spec.name)
        self._to_watch.put_nowait(AttemptKey(spec.uid, spec.name, spec.number))

    def _limited(self, spec: ContainerSpec) -> dict[str, str]:
        if self._groups is None or not spec.memory:
            return {}
        return self._groups.make(f"{spec.uid}.{spec.name}.{spec.number}", spec.memory)

    def unlimit(self, uid: str) -> None:
        """Remove what is left of the pod's memory limits."""
        if self._groups is not None:
            self._groups.remove(f"{uid}.")

    async def shims_ended(self, uid: str, patience: float | None = None) -> None:
        """Return when the pod's shims have written down how it ended, or after so long."""
        patience = _ENDING if patience is None else patience
        deadline = asyncio.get_running_loop().time() + patience
        while self.records.supervised(uid) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LETTING_GO)

    async def end_shims(self, uid: str) -> None:
        """See the shims of a pod whose processes were killed to their end; one that hangs is killed
        too."""
        await self.shims_ended(uid)
        for folder in self.records.supervised(uid):
            log.warning("the supervisor in %s hangs, and is killed", folder)
            await asyncio.to_thread(shims.kill_shim, folder)
        await self.shims_ended(uid)

    async def _watch(self, place: AttemptKey, changed: Callable[[str], None]) -> None:
        """Report every word of a shim, and its end.

        Its end is that its lock is free. The kernel closes the files of a killed process in an
        order of its own: a shim that has hung up may be read as alive for a moment more.
        """
        folder = self.folder(*place)
        while is_locked(folder / "lock"):
            with contextlib.suppress(ConnectionError):
                async with shims.connect_shim(folder, op="watch") as shim:
                    async for _ in shim.frames():
                        changed(place.uid)
            await asyncio.sleep(_LETTING_GO)  # nobody tells when a lock is free
        child = self._children.pop(folder, 0)
        if child:
            await asyncio.to_thread(os.waitpid, child, 0)
        changed(place.uid)
