"""The runtime that gives every pod namespaces of its own.

Created by `local/up.py` (or a test) and handed to the agent. One task per living container waits
for its shim to end, so an exit is seen at once; after a restart of the daemon the same tasks are
made for the containers found alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.errors import CannotRun
from muster.local.node.runtime import dialing, rootfs, sandbox, shims
from muster.local.node.runtime.records import Records, write
from muster.local.node.runtime.rootfs import Mount
from muster.local.node.standalone import kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from socket import socket

    from muster.api.meta import Key
    from muster.local.node.runtime.contract import ContainerSpec, SandboxSpec
    from muster.local.node.runtime.network import Network
    from muster.local.node.runtime.records import PodRecord

_ENDING = 5.0


@dataclass(frozen=True)
class _Watched:
    uid: str
    container: str
    number: int


class Namespaces:
    """Runs pods in namespaces, below one data directory."""

    def __init__(self, data_dir: Path, network: Network, rules: rootfs.Rules, images: Path) -> None:
        self._images = images
        self._network = network
        self._rules = rules
        self._tree = rootfs.HostTree()
        self._to_watch: asyncio.Queue[_Watched] = asyncio.Queue()
        self._children: dict[Path, int] = {}
        self._busy: set[str] = set()
        self.records = Records(data_dir / "pods")

    async def run(self, changed: Callable[[str], None]) -> None:
        for uid in self.uids():
            self._busy.add(self.read(uid).key)
            for name in self.read(uid).alive:
                number = self.records.attempts(uid, name)[-1]
                self._to_watch.put_nowait(_Watched(uid, name, number))
        async with asyncio.TaskGroup() as group:
            while True:
                watched = await self._to_watch.get()
                group.create_task(self._watch(watched, changed))

    def uids(self) -> list[str]:
        return self.records.uids()

    def read(self, uid: str) -> PodRecord:
        return self.records.read(uid)

    @property
    def host_address(self) -> str:
        return self._network.gateway

    def address(self, key: Key) -> str:
        return self._network.give(key, self._busy)

    def last_address(self, key: Key) -> str:
        return str(self._network.addresses.of(key) or "")

    async def open(self, spec: SandboxSpec) -> None:
        if self.read(spec.uid).open:
            return
        folder = self.records.pod(spec.uid)
        folder.mkdir(parents=True, exist_ok=True)
        address = "" if spec.host_network else self.address(spec.key)
        self._busy.add(str(spec.key))
        if address:
            write(folder / "resolv.conf", self._network.resolver)
        write(folder / "hostname", f"{spec.hostname}\n")
        facts = {"key": str(spec.key), "address": address or self._network.gateway}

        def made(pid: int) -> dict[str, str]:
            started = kernel.started(pid)
            self.records.write_pod(spec.uid, facts | {"pause": pid, "started": started})
            return self._network.link(address) if address else {}

        shared = [["tmpfs", str(folder / "shm"), "mode=1777"]]
        for name, options in spec.memory_volumes.items():
            shared.append(["tmpfs", str(folder / "volumes" / name), options])
        join = self._network.holder
        wanted = sandbox.Wanted(spec.hostname, bool(address), join, tuple(shared))
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
            Mount(str(folder / "termination-log"), "/dev/termination-log"),
            *(
                Mount(str(pod / name), f"/etc/{name}")
                for name in ("hosts", "resolv.conf", "hostname")
                if (pod / name).exists()
            ),
        )
        mounts = {mount.path: mount for mount in (*own, *spec.mounts)}
        layer = self._images / spec.image
        layers = [str(layer)] if spec.image and layer.is_dir() else []
        body = {
            "pause": record.pause,
            "root": str(folder / "root"),
            "steps": rootfs.plan(self._rules, mounts.values(), layers, self._tree),
            "argv": spec.argv,
            "env": spec.env,
            "cwd": spec.cwd,
            "tty": spec.tty,
            "stdin": spec.stdin,
        }
        self._children[folder] = await asyncio.to_thread(shims.start, folder, body)
        self.records.forget_old_attempts(spec.uid, spec.name)
        self._to_watch.put_nowait(_Watched(spec.uid, spec.name, spec.number))

    async def stop(self, uid: str, container: str, grace: float) -> None:
        with contextlib.suppress(ConnectionError):
            async with self.ask(uid, container, op="stop", grace=grace):
                pass

    async def close(self, uid: str) -> None:
        record = self.read(uid)
        if record.pause:
            await asyncio.to_thread(sandbox.end, record.pause)
        deadline = asyncio.get_running_loop().time() + _ENDING
        while self.records.supervised(uid) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if record.address and record.address != self._network.gateway and record.pause:
            await asyncio.to_thread(self._network.detach, record.address)

    async def forget(self, uid: str) -> None:
        self._busy.discard(self.read(uid).key)
        await self.close(uid)
        await asyncio.to_thread(self.records.forget, uid)

    def attempts(self, uid: str, container: str) -> list[int]:
        return self.records.attempts(uid, container)

    def folder(self, uid: str, container: str, number: int) -> Path:
        return self.records.attempt(uid, container, number)

    async def connect(self, uid: str, port: int) -> socket:
        record, errors = self.read(uid), self.records.pod(uid) / "dial.err"
        if not record.open:
            raise CannotRun("the pod is not running")
        return await dialing.connect(
            record.pause, [("127.0.0.1", port), (record.address, port)], errors
        )

    async def reach(self, uid: str, port: int) -> socket:
        record = self.read(uid)
        if not record.open:
            raise CannotRun("the pod is not running")
        on_host = record.address == self._network.gateway
        if self._network.holder and not on_host:
            errors = self.records.pod(uid) / "dial.err"
            return await dialing.connect(record.pause, [(record.address, port)], errors)
        return await dialing.connect_here("127.0.0.1" if on_host else record.address, port)

    def ask(self, uid: str, container: str, **request: Any) -> AbstractAsyncContextManager[Any]:
        number = (self.records.attempts(uid, container) or [0])[-1]
        return shims.ask(self.records.attempt(uid, container, number), **request)

    async def _watch(self, watched: _Watched, changed: Callable[[str], None]) -> None:
        """Report every word of a shim, and its end."""
        folder = self.records.attempt(watched.uid, watched.container, watched.number)
        with contextlib.suppress(ConnectionError):
            async with shims.ask(folder, op="watch") as shim:
                async for _ in shim.frames():
                    changed(watched.uid)
        child = self._children.pop(folder, 0)
        if child:
            await asyncio.to_thread(os.waitpid, child, 0)
        changed(watched.uid)
