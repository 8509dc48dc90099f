"""The runtime for machines that forbid namespaces: a pod's processes are simply the host's.

Made by the agent. Every pod is on the host's network; files are the host's. What a pod would see at
a mount path it finds below `$MUSTER_ROOT`, as a link, and its private `/tmp` at `$TMPDIR`. All of a
pod's processes carry its folder in their environment, which is how they are found and ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from muster.errors import CannotRun
from muster.local.node.network import pod_sockets
from muster.local.node.runtime.shim_runtime import ShimRuntime

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from socket import socket

    from muster.api.meta import Key
    from muster.local.node.runtime.interface import ContainerSpec, SandboxSpec
    from muster.local.node.runtime.rootfs import Mount

LOOPBACK = "127.0.0.1"
MARK = "MUSTER_POD"


class HostNetwork:
    """In place of the pods' network where there is none."""

    gateway = LOOPBACK
    holder = 0
    way_out = "the machine's own network"
    no_way_out = ""

    def open(self, live: Collection[str] = ()) -> None:
        """Nothing to bring up."""

    def close(self) -> None:
        """Nothing to remove."""


class PlainRuntime(ShimRuntime):
    """Runs pods as ordinary processes."""

    shares_files = True

    @property
    def host_address(self) -> str:
        return LOOPBACK

    def address(self, key: Key) -> str:
        return LOOPBACK

    def last_address(self, key: Key) -> str:
        return LOOPBACK

    async def open(self, spec: SandboxSpec) -> None:
        before, folder = self.read(spec.uid), self.records.pod(spec.uid)
        if before.open:
            return
        for name in ("root", "tmp", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        facts = {"key": str(spec.key), "address": LOOPBACK, "plain": True}
        self.records.write_pod(spec.uid, facts | {"sandbox": before.next_sandbox})

    async def start(self, spec: ContainerSpec) -> None:
        if self.folder(spec.uid, spec.name, spec.number).exists():
            return
        folder = self.records.pod(spec.uid)
        await asyncio.to_thread(_link, folder / "root", spec.mounts)
        places = {
            MARK: str(folder),
            "MUSTER_ROOT": str(folder / "root"),
            "TMPDIR": str(folder / "tmp"),
        }
        body = {"env": {**places, **spec.env}, "cwd": self._directory(folder, spec.cwd)}
        await self.supervise(spec, body)

    def _directory(self, folder: Path, wanted: str) -> str:
        """Where a program begins: never in a directory that would have to be made on the host."""
        if wanted == "/":
            return str(folder / "work")
        return wanted if Path(wanted).is_dir() else _below(folder / "root", wanted)

    async def close(self, uid: str) -> None:
        record = self.read(uid)
        await asyncio.to_thread(_end, str(self.records.pod(uid)))
        await self.end_shims(uid)
        self.unlimit(uid)
        if record.open:
            facts = {"key": record.key, "address": record.address, "sandbox": record.sandbox}
            self.records.write_pod(uid, facts)

    async def forget(self, uid: str) -> None:
        await self.close(uid)
        await asyncio.to_thread(self.records.forget, uid)

    async def connect(self, uid: str, port: int) -> socket:
        return await self.reach(uid, port)

    async def reach(self, uid: str, port: int) -> socket:
        if not self.read(uid).open:
            raise CannotRun("the pod is not running")
        return await pod_sockets.connect_from_host(LOOPBACK, port)


def _below(root: Path, path: str) -> str:
    """The path as the pod's own root has it; no number of `..` leads out of that."""
    return str(root) + posixpath.normpath(posixpath.join("/", path.lstrip("/")))


def _link(root: Path, mounts: Iterable[Mount]) -> None:
    """Let every mount be found below the pod's own root; the outermost paths come first."""
    for mount in sorted(mounts, key=lambda mount: mount.path):
        place = Path(_below(root, mount.path))
        with contextlib.suppress(FileExistsError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(mount.source)


def _end(folder: str) -> None:
    """Kill every process of the pod: those that carry its mark, wherever they have gone."""
    marked = f"{MARK}={folder}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if marked in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                os.kill(int(name), signal.SIGKILL)
