"""Keeping every pod's `/etc/hosts` true while pods and services come and go.

Run by the agent. Changes that come together are written together: one pass over the files for a
whole gang.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from muster.local.node import hosts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from muster.api.meta import Key
    from muster.kube.informer import Informer
    from muster.kube.store import Change
    from muster.local.node.hosts import Entry
    from muster.local.node.runtime.contract import Runtime
    from muster.local.node.services import Service
    from muster.local.node.spec import Pod


class Names:
    def __init__(
        self, runtime: Runtime, pods: Informer[Pod], services: Informer[Service], pods_dir: Path
    ) -> None:
        self._runtime = runtime
        self._pods = pods
        self._services = services
        self._pods_dir = pods_dir
        self._changed = asyncio.Event()
        self._table: list[Entry] | None = None
        pods.subscribe(self._pod_changed)
        services.subscribe(self._service_changed)

    async def run(self) -> None:
        await self._pods.synced()
        await self._services.synced()
        while True:
            await self._changed.wait()
            self._changed.clear()
            waiting = [pod for pod in self._pods.all() if self._file(pod).exists()]
            for pod in waiting:
                with contextlib.suppress(FileNotFoundError):  # the pod went meanwhile
                    self.write(pod)
                await asyncio.sleep(0)

    def write(self, pod: Pod) -> None:
        """Make one pod's file say what is true now."""
        hosts.keep(
            self._file(pod),
            hosts.render(
                pod.metadata.namespace,
                self._entries(),
                pod.spec.host_aliases,
                self._runtime.host_address,
                hosts.own(pod, self._address(pod)),
            ),
        )

    def _entries(self) -> Iterable[Entry]:
        if self._table is None:
            self._table = hosts.entries(
                self._pods.all(),
                self._services.all(),
                self._address,
                self._runtime.last_address,
            )
        return self._table

    def _address(self, pod: Pod) -> str:
        if pod.spec.host_network:
            return self._runtime.host_address
        return self._runtime.address(pod.metadata.key)

    def _file(self, pod: Pod) -> Path:
        return self._pods_dir / pod.metadata.uid / "hosts"

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or _matters(old) != _matters(new):
            self._forget()

    def _service_changed(self, change: Change[Service]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.spec.selector != new.spec.selector:
            self._forget()

    def _forget(self) -> None:
        self._table = None
        self._changed.set()


def _matters(pod: Pod) -> tuple[Key, bool, dict[str, str]]:
    return pod.metadata.key, pod.finished, pod.metadata.labels
