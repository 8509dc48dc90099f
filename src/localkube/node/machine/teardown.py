"""The end of a local cluster: every pod is stopped, and nothing is left outside its home."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING

from kubekit.errors import CannotRun, describe
from localkube.node.machine.leftovers import find_leftovers
from localkube.node.runtime.processes import kill_and_wait
from localkube.node.runtime.rootfs import hidden_directories

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from localkube.node.network.pod_network import Network
    from localkube.node.runtime.cgroups import ControlGroups
    from localkube.node.runtime.container_runtime import Runtime

log = logging.getLogger(__name__)


class Teardown:
    """Stops the pods of one home, then removes the network, control groups and directories."""

    def __init__(
        self, home: Path, runtime: Runtime, network: Network, groups: ControlGroups
    ) -> None:
        self._home, self._runtime, self._network, self._groups = home, runtime, network, groups

    async def run(self, hurry: asyncio.Event) -> None:
        """Do it; `hurry` ends the pods' grace periods. CannotRun says what is left."""
        uids = self._runtime.records.uids()
        async with asyncio.TaskGroup() as group:
            kill = group.create_task(self._kill_pods(uids, hurry))
            await asyncio.gather(*(self._attempt(uid, self._stop_pod(uid)) for uid in uids))
            kill.cancel()
        await self._close_machine()
        left = await asyncio.to_thread(find_leftovers, self._home)
        if left:
            await asyncio.gather(*(asyncio.to_thread(kill_and_wait, pid) for pid in left.processes))
            await self._close_machine()
            left = await asyncio.to_thread(find_leftovers, self._home)
        if left:
            raise CannotRun(f"the local cluster has stopped, but this is left of it: {left.text}")

    async def _close_machine(self) -> None:
        empty = partial(hidden_directories.remove_empty, self._home)
        for name, close in (
            ("the network", self._network.close),
            ("the control groups", self._groups.close),
            ("the hidden directories", empty),
        ):
            await self._attempt(name, asyncio.to_thread(close))

    async def _attempt(self, subject: str, step: Awaitable[None]) -> None:
        """One step of a teardown, whose failure must not prevent the others."""
        try:
            await step
        except Exception as error:  # noqa: BLE001 - `find_leftovers` shows what it means
            log.warning("stopping %s failed: %s", subject, describe(error))

    async def _stop_pod(self, uid: str) -> None:
        record = self._runtime.records.read(uid)
        if record.open:
            for container in record.alive:
                await self._runtime.stop(uid, container, record.grace)
            await self._runtime.wait_for_shims(uid, record.grace + 1.0)
        await self._runtime.close(uid)
        if record.open and record.alive:  # it still ran: the next `up` must not count a failure
            with contextlib.suppress(OSError):  # a full disk; the pod's status says it too
                self._runtime.records.write_stopped(uid)

    async def _kill_pods(self, uids: list[str], hurry: asyncio.Event) -> None:
        await hurry.wait()
        for uid in uids:
            with contextlib.suppress(OSError):  # the pod is gone
                for container in self._runtime.records.read(uid).alive:
                    await self._runtime.stop(uid, container, 0)
