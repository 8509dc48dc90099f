"""The runtime that gives every pod its own namespaces, as root or rootless.

The pod's first process (`pause`) makes and holds the namespaces: when it exits, the kernel kills
every process of the pod and frees the namespaces. The order of the steps makes a crash safe at any
point: the first process exists but waits; its PID is saved; it gets its link; only then it
continues. If the daemon dies earlier, the process exits.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import TYPE_CHECKING

from localkube.node.network import pod_network
from localkube.node.network.pod_network import LOOPBACK
from localkube.node.runtime import processes
from localkube.node.runtime.container_runtime import ContainerSpec, Runtime
from localkube.node.runtime.processes import fork_program, kill_and_wait, last_line
from localkube.node.runtime.rootfs import HostTree, Mount, RootfsRules, plan_rootfs
from localkube.node.standalone.linux import files, kernel
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kubekit.objects.meta import Key, Raw
    from localkube.node.network.bridge import BridgeNetwork
    from localkube.node.pod import Pod

_START_TIMEOUT = 10.0


class NamespaceRuntime(Runtime):
    shares_files = False

    def __init__(
        self,
        data_dir: Path,
        network: BridgeNetwork,
        rules: RootfsRules,
        images: Path,
    ) -> None:
        super().__init__(data_dir, network)
        self._images = images
        self._network = network
        self._rules = rules
        self._tree = HostTree()
        # The names of pods with namespaces, by uid: they use their addresses whatever the API says.
        self._open: dict[str, str] = {}
        self._bound: dict[str, None] = {}  # the names of pods that are to run here

    async def run(self, changed: Callable[[str], None]) -> None:
        records = [self.records.read(uid) for uid in self.records.uids()]
        self._open |= {
            record.uid: record.key
            for record in records
            if record.pause and record.address != self._network.gateway
        }
        self.assign_addresses(())
        await super().run(changed)

    def assign_addresses(self, keys: Iterable[Key]) -> None:
        self._bound = dict.fromkeys(map(str, keys))
        self._assign()

    def _assign(self) -> None:
        self._network.addresses.assign(dict.fromkeys(self._open.values()) | self._bound)

    async def open(self, pod: Pod, memory_volumes: Mapping[str, str]) -> None:
        uid, key = pod.metadata.uid, pod.metadata.key
        before = self.records.read(uid)
        if before.open:
            return
        # The first process of lost namespaces may still be exiting.
        if before.pause and not await asyncio.to_thread(processes.kill_and_wait, before.pause):
            raise CannotRun("the pod's earlier first process does not exit")
        folder = self.records.pod(uid)
        folder.mkdir(parents=True, exist_ok=True)
        address = "" if pod.spec.host_network else self._network.allocate(key)
        if address:  # a pod on the host's network has the host's file
            self._open[uid] = str(key)
            await self._network.save_addresses()
            files.write_atomically(folder / "resolv.conf", self._network.resolv_conf, 0o644)
        files.write_atomically(folder / "hostname", f"{pod.hostname}\n", 0o644)
        body: Raw = {
            "key": str(key),
            "address": address or self._network.gateway,
            "sandbox": before.next_sandbox,
            "grace": pod.grace,
        }

        def created(pid: int) -> dict[str, str]:
            started = kernel.start_time(pid)
            self.records.write_pod(uid, body | {"pause": pid, "started": started})
            return self._network.link(address) if address else {}

        shared = [("shm", "mode=1777")]
        shared += [(f"volumes/{name}", options) for name, options in memory_volumes.items()]
        request = {
            "folder": str(folder),
            "hostname": pod.hostname,
            "network": bool(address),
            "shared": shared,
            "hidden": self._rules.hidden,
            "join": self._network.holder,
        }
        await open_sandbox(folder, request, created)

    async def start(self, spec: ContainerSpec) -> None:
        record = self.records.read_open(spec.attempt.uid)
        folder = self.records.attempt(*spec.attempt)
        if folder.exists():
            return
        pod = self.records.pod(spec.attempt.uid)
        own_mounts = (
            Mount(str(pod / "shm"), "/dev/shm"),
            Mount(str(folder / "termination-log"), spec.container.termination_message_path),
            *(
                Mount(str(pod / name), f"/etc/{name}")
                for name in ("hosts", "resolv.conf", "hostname")
                if (pod / name).exists()
            ),
        )
        # A volume that the pod mounts at one of our paths replaces ours.
        mounts = {mount.path: mount for mount in (*own_mounts, *spec.mounts)}
        layers = layers_of(spec.container.image, self._images)
        body = {
            "pause": record.pause,
            "pause_started": kernel.start_time(record.pause),
            "pod": str(pod),
            "root": str(folder / "root"),
            "steps": plan_rootfs(self._rules, mounts.values(), layers, self._tree),
            "hidden": self._rules.hidden,
            "own": [str(pod), *layers, *self._rules.own],
        }
        await self.supervise(spec, body)

    async def close(self, uid: str) -> None:
        record = self.records.read(uid)
        # In this order: the first process stays until every shim has reaped its children.
        if record.pause:
            processes.kill(record.pause)
        await self.end_shims(uid)
        if record.pause:
            await asyncio.to_thread(processes.kill_and_wait, record.pause)
        self.groups.remove(f"{uid}.")
        if record.address and record.address != self._network.gateway and record.pause:
            await asyncio.to_thread(self._network.detach, record.address)
        if self._open.pop(uid, None):
            self._assign()

    async def reach(self, uid: str, port: int) -> socket.socket:
        record = self.records.read_open(uid)
        if record.address == self._network.gateway:  # a pod on the host's network
            return await pod_network.connect_from_host(LOOPBACK, port)
        if self._network.holder:  # rootless: the daemon is outside the pods' network
            errors = self.records.pod(uid) / "open_socket.err"
            return await pod_network.connect_from_pod(record.pause, record.address, port, errors)
        return await pod_network.connect_from_host(record.address, port)

    async def reach_from_inside(self, uid: str, port: int) -> socket.socket:
        record = self.records.read_open(uid)
        try:
            return await self.reach(uid, port)
        except (OSError, CannotRun):
            if record.address == self._network.gateway:
                raise
        errors = self.records.pod(uid) / "open_socket.err"
        return await pod_network.connect_from_pod(record.pause, LOOPBACK, port, errors)


def layers_of(image: str, images: Path) -> list[str]:
    """The directories to lay over the machine's files for a valid image name: the node has no
    images, but may have a directory of the user's for each name, which cannot lead out of it."""
    layer = images / image
    return [str(layer)] if image and layer.is_dir() else []


async def open_sandbox(folder: Path, request: Raw, created: Callable[[int], Raw]) -> None:
    """Start the pod's first process with this request; `pause` describes its fields.

    `created` is called when the namespaces exist: it records the PID and returns the address to
    configure inside.
    """
    ours, theirs = socket.socketpair()
    errors = folder / "pause.err"
    with theirs:
        starter = await asyncio.to_thread(fork_program, "pause", [], {0: theirs.fileno()}, errors)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            _send(writer, request)
            pid = int((await _receive(reader, errors))["pid"])
            # In a thread: it writes to disk and talks to the kernel.
            _send(writer, await asyncio.to_thread(created, pid))
            await _receive(reader, errors)
    except BaseException as error:
        # The starter exits by itself unless it hangs; in both cases it must be reaped.
        await asyncio.to_thread(kill_and_wait, starter)
        if isinstance(error, TimeoutError):
            message = f"the pod's first process did not start in {_START_TIMEOUT:g} s"
            raise CannotRun(message) from error
        raise
    finally:
        writer.close()
    # Reap the starter, which has done its work.
    await asyncio.to_thread(os.waitpid, starter, 0)


def _send(writer: asyncio.StreamWriter, body: Raw) -> None:
    writer.write(json.dumps(body).encode() + b"\n")


async def _receive(reader: asyncio.StreamReader, errors: Path) -> Raw:
    line = await reader.readline()
    if not line:
        raise CannotRun(f"cannot create the pod's namespaces: {last_line(errors)}")
    body: Raw = json.loads(line)
    return body
