"""What a local cluster still has on this machine outside its data directory.

`arena down` claims that nothing is left: this module looks. Processes are known by the directory in
their environment (a pod's first process, the holder of namespaces) or in their arguments (shims),
links and the firewall table by the cluster's hash in their names.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.nat import uses_forwarding
from localkube.node.runtime.cgroups import saved_groups
from localkube.node.standalone.linux import kernel
from localkube.node.standalone.linux.netlink import Netlink

_MARKS = (b"MUSTER_POD=", b"MUSTER_HOLDER=")
_PROGRAM = b"from localkube.node.standalone import"
_MAX_NAMES = 3


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


def find_leftovers(data_dir: Path) -> Leftovers:
    """Look for everything that belongs to the cluster of this data directory."""
    folder = str(data_dir.resolve())
    network = BridgeNetwork(data_dir)
    with Netlink() as net:
        names = [link.name for link in net.links()]
    return Leftovers(
        tuple(_processes({folder, str(data_dir)})),
        tuple(n for n in names if n == network.bridge or n.startswith(network.prefix)),
        tuple(_mounts(folder)),
        tuple(str(group) for group in saved_groups(data_dir)),
        uses_forwarding(network.bridge),
    )


def _processes(folders: set[str]) -> list[int]:
    places = [folder.encode() for folder in folders]
    found = []
    for pid in kernel.pids():
        # The process may end meanwhile, or belong to another user.
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
