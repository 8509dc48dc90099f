"""The runtime for machines that forbid namespaces: pods are ordinary processes.

Pods share the host's network and files. Volumes are links below `$MUSTER_ROOT`, and a pod's private
`/tmp` is `$TMPDIR`. Without a pid namespace, only the environment tells which processes belong to a
pod: all of them have its folder in `MUSTER_POD`, and `close` kills the processes that have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from localkube.node.network import pod_network
from localkube.node.network.pod_network import LOOPBACK
from localkube.node.runtime.container_runtime import ContainerSpec, Runtime
from localkube.node.standalone.linux import beneath, kernel
from localkube.node.standalone.linux.files import inside, opened
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from socket import socket

    from kubekit.objects.meta import Key
    from localkube.node.pod import Pod
    from localkube.node.runtime.rootfs import Mount

MARK = "MUSTER_POD"
PROGRAMS_FOLDER = "programs"
"""In the data directory: the scripts that other runtimes add to the root directory of pods."""


class PlainRuntime(Runtime):
    shares_files = True

    def __init__(self, data_dir: Path, folder: str = "/run/localkube") -> None:
        """`folder` is where other runtimes show these scripts in a pod, as manifests name it."""
        super().__init__(data_dir, pod_network.Network())
        self._programs, self._folder = data_dir / PROGRAMS_FOLDER, folder

    def assign_addresses(self, keys: Iterable[Key]) -> None:
        """Nothing to do: all pods have the machine's address."""

    async def open(self, pod: Pod, memory_volumes: Mapping[str, str]) -> None:
        meta = pod.metadata
        before, folder = self.records.read(meta.uid), self.records.pod(meta.uid)
        if before.open:
            return
        # No process marks the pod as open here: its record has `plain` instead of a PID.
        for name in ("root", "tmp", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        body = {"key": str(meta.key), "address": LOOPBACK, "plain": True, "grace": pod.grace}
        self.records.write_pod(meta.uid, body | {"sandbox": before.next_sandbox})

    async def start(self, spec: ContainerSpec) -> None:
        if self.records.attempt(*spec.attempt).exists():
            return
        folder = self.records.pod(spec.attempt.uid)
        await asyncio.to_thread(_link, folder / "root", spec.mounts)
        variables = {
            MARK: str(folder),
            "MUSTER_ROOT": str(folder / "root"),
            "TMPDIR": str(folder / "tmp"),
        }
        path = spec.env.get("PATH", "").replace(self._folder, str(self._programs))
        env = {**variables, **spec.env, "PATH": path}
        body = {"env": env, "cwd": self._working_directory(folder, spec.cwd)}
        await self.supervise(spec, body)

    def _working_directory(self, folder: Path, path: str) -> str:
        """The host's directory if it exists, else one below the pod's root: nothing is created on
        the host."""
        if path == "/":
            return str(folder / "work")
        return path if Path(path).is_dir() else str(folder / "root" / inside(path))

    async def close(self, uid: str) -> None:
        record = self.records.read(uid)
        await asyncio.to_thread(_kill_all, str(self.records.pod(uid)))
        await self.end_shims(uid)
        self.groups.remove(f"{uid}.")
        if record.open:  # the same record without `plain`
            body = {"key": record.key, "address": record.address, "sandbox": record.sandbox}
            self.records.write_pod(uid, body)

    async def reach(self, uid: str, port: int) -> socket:
        self.records.read_open(uid)
        return await pod_network.connect_from_host(LOOPBACK, port)

    async def reach_from_inside(self, uid: str, port: int) -> socket:
        return await self.reach(uid, port)


def _link(root: Path, mounts: Iterable[Mount]) -> None:
    """Link every mount below the pod's own root, outer paths first."""
    mounts = sorted(mounts, key=lambda mount: mount.path)
    for mount in mounts:
        # A link to a directory of the user would put the links of inner mounts into it.
        inner = any(other.path.startswith(f"{mount.path}/") for other in mounts)
        if inner and mount.source == mount.path:
            continue
        # A path with `..` would otherwise create links outside of the pod's root.
        link = root / inside(mount.path)
        with contextlib.suppress(FileExistsError):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(mount.source) / _made(mount))


def _made(mount: Mount) -> str:
    """The path beneath the mount's volume; it is a directory if it is missing."""
    if mount.sub:
        with opened(beneath.open_top(mount.source)) as top:
            try:
                os.close(beneath.open_beneath(top, mount.sub))
            except OSError as error:
                raise CannotRun(f'subPath "{mount.sub}" leads out of its volume') from error
    return mount.sub


def _kill_all(folder: str) -> None:
    """Kill every process with the pod's mark in its environment, whatever its parent."""
    mark = f"{MARK}={folder}".encode()
    for pid in kernel.pids():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
