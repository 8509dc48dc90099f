"""The runtime that gives every pod namespaces of its own.

Made by the agent, as root or rootless; only the network differs. The pod's first process holds the
namespaces; its end is the end of all of them.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from muster.errors import CannotRun
from muster.local.node.network import pod_sockets
from muster.local.node.runtime import rootfs, sandbox
from muster.local.node.runtime.pod_records import write_atomically
from muster.local.node.runtime.rootfs import Mount
from muster.local.node.runtime.shim_runtime import ShimRuntime
from muster.local.node.standalone.linux import kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from socket import socket

    from muster.api.meta import Key, Raw
    from muster.local.node.network.bridge import BridgeNetwork
    from muster.local.node.runtime.cgroups import MemoryCgroups
    from muster.local.node.runtime.interface import ContainerSpec, SandboxSpec


class NamespaceRuntime(ShimRuntime):
    """Runs pods in namespaces, below one data directory."""

    shares_files = False

    def __init__(
        self,
        data_dir: Path,
        network: BridgeNetwork,
        rules: rootfs.RootfsRules,
        images: Path,
        groups: MemoryCgroups | None = None,
    ) -> None:
        super().__init__(data_dir, groups)
        self._images = images
        self._network = network
        self._rules = rules
        self._tree = rootfs.HostTree()
        self._busy: set[str] = set()

    async def run(self, changed: Callable[[str], None]) -> None:
        self._busy |= {self.read(uid).key for uid in self.uids()}
        await super().run(changed)

    @property
    def host_address(self) -> str:
        return self._network.gateway

    def address(self, key: Key) -> str:
        return self._network.give(key, self._busy)

    def last_address(self, key: Key) -> str:
        return str(self._network.addresses.of(key) or "")

    async def open(self, spec: SandboxSpec) -> None:
        before = self.read(spec.uid)
        if before.open:
            return
        if before.pause and not await asyncio.to_thread(sandbox.end, before.pause):
            raise CannotRun("the pod's former first process does not end")
        folder = self.records.pod(spec.uid)
        folder.mkdir(parents=True, exist_ok=True)
        address = "" if spec.host_network else self.address(spec.key)
        self._busy.add(str(spec.key))
        if address:
            write_atomically(folder / "resolv.conf", self._network.resolver)
        write_atomically(folder / "hostname", f"{spec.hostname}\n")
        facts: Raw = {
            "key": str(spec.key),
            "address": address or self._network.gateway,
            "sandbox": before.next_sandbox,
        }

        def made(pid: int) -> dict[str, str]:
            started = kernel.start_time(pid)
            self.records.write_pod(spec.uid, facts | {"pause": pid, "started": started})
            return self._network.link(address) if address else {}

        shared = [["tmpfs", str(folder / "shm"), "mode=1777"]]
        for name, options in spec.memory_volumes.items():
            shared.append(["tmpfs", str(folder / "volumes" / name), options])
        join = self._network.holder
        wanted = sandbox.SandboxOptions(spec.hostname, bool(address), join, tuple(shared))
        _, starter = await sandbox.open_sandbox(folder, wanted, made)
        await asyncio.to_thread(os.waitpid, starter, 0)

    async def start(self, spec: ContainerSpec) -> None:
        record = self.read(spec.uid)
        folder = self.records.attempt(spec.uid, spec.name, spec.number)
        if folder.exists():
            return
        pod = self.records.pod(spec.uid)
        own = (
            Mount(str(pod / "shm"), "/dev/shm"),
            Mount(str(folder / "termination-log"), spec.message_path),
            *(
                Mount(str(pod / name), f"/etc/{name}")
                for name in ("hosts", "resolv.conf", "hostname")
                if (pod / name).exists()
            ),
        )
        mounts = {mount.path: mount for mount in (*own, *spec.mounts)}
        layer = self._images / spec.image
        layers = [str(layer)] if spec.image and layer.is_dir() else []
        steps = [["make", mount.source] for mount in mounts.values() if mount.make]
        steps += rootfs.plan_rootfs(self._rules, mounts.values(), layers, self._tree)
        body = {"pause": record.pause, "root": str(folder / "root"), "steps": steps}
        await self.supervise(spec, body)

    async def close(self, uid: str) -> None:
        record = self.read(uid)
        # In this order: what a shim has not reaped keeps the first process from being gone.
        if record.pause:
            sandbox.kill(record.pause)
        await self.end_shims(uid)
        if record.pause:
            await asyncio.to_thread(sandbox.end, record.pause)
        self.unlimit(uid)
        if record.address and record.address != self._network.gateway and record.pause:
            await asyncio.to_thread(self._network.detach, record.address)

    async def forget(self, uid: str) -> None:
        self._busy.discard(self.read(uid).key)
        await self.close(uid)
        await asyncio.to_thread(self.records.forget, uid)

    async def connect(self, uid: str, port: int) -> socket:
        record, errors = self.read(uid), self.records.pod(uid) / "dial.err"
        if not record.open:
            raise CannotRun("the pod is not running")
        return await pod_sockets.connect_from_pod(
            record.pause, [("127.0.0.1", port), (record.address, port)], errors
        )

    async def reach(self, uid: str, port: int) -> socket:
        record = self.read(uid)
        if not record.open:
            raise CannotRun("the pod is not running")
        on_host = record.address == self._network.gateway
        if self._network.holder and not on_host:
            errors = self.records.pod(uid) / "dial.err"
            return await pod_sockets.connect_from_pod(
                record.pause, [(record.address, port)], errors
            )
        return await pod_sockets.connect_from_host("127.0.0.1" if on_host else record.address, port)
