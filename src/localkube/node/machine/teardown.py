"""The end of a local cluster: every pod is stopped, and nothing is left outside its home.

`arena down` claims that nothing is left: `find_leftovers` looks. Processes are known by the
directory in their environment (a pod's first process, the holder of namespaces) or in their
arguments (shims), links and the firewall table by the cluster's hash in their names.

Hidden directories that do not exist when the cluster starts, e.g. `~/.kube`, are among what is
removed. Pods that see the directory around one would see it as soon as it is made, because an empty
file system can only cover a directory that exists. So it is made, empty and private, and removed
with the cluster unless somebody has put files into it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kubekit.errors import describe
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.nat import uses_forwarding
from localkube.node.runtime.cgroups import saved_groups
from localkube.node.runtime.processes import kill_and_wait
from localkube.node.standalone.linux import files, kernel
from localkube.node.standalone.linux.netlink import Netlink
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from localkube.node.runtime.container_runtime import Runtime

log = logging.getLogger(__name__)

_RECORD = "hidden_directories"
_MARKS = (b"MUSTER_POD=", b"MUSTER_HOLDER=")
_PROGRAM = b"from localkube.node.standalone import"
_MAX_NAMES = 3


class Teardown:
    """Stops the pods of one home, then removes the network, control groups and directories."""

    def __init__(self, home: Path, runtime: Runtime) -> None:
        self._home, self._runtime = home, runtime

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
        empty = partial(remove_hidden_directories, self._home)
        for name, close in (
            ("the network", self._runtime.network.close),
            ("the control groups", self._runtime.groups.close),
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


def find_leftovers(data_dir: Path) -> Leftovers:
    """Look for everything that belongs to the cluster of this data directory."""
    folder = str(data_dir.resolve())
    network = BridgeNetwork(data_dir)
    with Netlink() as net:
        names = net.links()
    return Leftovers(
        tuple(_processes({folder, str(data_dir)})),
        tuple(n for n in names if n == network.bridge or n.startswith(network.prefix)),
        tuple(_mounts(folder)),
        tuple(str(group) for group in saved_groups(data_dir)),
        uses_forwarding(network.bridge),
    )


@dataclass(frozen=True)
class Leftovers:
    """Everything that is left, by kind."""

    processes: tuple[int, ...] = ()
    links: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    forwarding: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def text(self) -> str:
        """What is left, in words; empty if nothing is."""
        kinds = (
            ("process", "processes", tuple(map(str, self.processes))),
            ("network link", "network links", self.links),
            ("mount", "mounts", self.mounts),
            ("control group", "control groups", self.groups),
        )
        parts = [_count(one, many, names) for one, many, names in kinds if names]
        if self.forwarding:
            parts.append("the forwarding of packets")
        return ", ".join(parts)


def make_hidden_directories(data_dir: Path, hidden: Iterable[str]) -> None:
    """Make those whose parent exists; the record says which ones to remove."""
    made = list(files.read_json(data_dir / _RECORD).get("made", []))
    for path in map(Path, hidden):
        # A parent that we may not write to belongs to another user, whose files are no secrets of
        # ours.
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700)
            made.append(str(path))
    if made:
        files.write_atomically(data_dir / _RECORD, json.dumps({"made": made}))


def remove_hidden_directories(data_dir: Path) -> None:
    """Remove the directories that were made, if they are still empty."""
    for path in files.read_json(data_dir / _RECORD).get("made", []):
        with contextlib.suppress(OSError):
            Path(path).rmdir()
    (data_dir / _RECORD).unlink(missing_ok=True)


def _processes(folders: set[str]) -> list[int]:
    places = [folder.encode() for folder in folders]
    found = []
    for pid in kernel.pids():
        # The process may have ended, or belong to another user.
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if len(words) == 1 or pid == os.getpid():
                continue  # a zombie or a thread of the kernel
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if any(_names_cluster(words, environment, place) for place in places):
                found.append(pid)
    return found


def _names_cluster(words: list[bytes], environment: list[bytes], folder: bytes) -> bool:
    if any(_PROGRAM in word for word in words):
        return any(_is_below(word, folder) for word in words)
    values = (
        value.removeprefix(mark)
        for mark in _MARKS
        for value in environment
        if value.startswith(mark)
    )
    return any(_is_below(value, folder) for value in values)


def _is_below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")


def _mounts(folder: str) -> list[str]:
    """Mounts below the data directory, which may be a mount itself."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (line.split(" ", 5)[4] for line in lines)
    return [point for point in points if point.startswith(f"{folder}/")]


def _count(one: str, many: str, names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return f"{len(names)} {one if len(names) == 1 else many} ({shown})"
