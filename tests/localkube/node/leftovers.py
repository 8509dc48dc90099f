"""Processes, links and mounts of a local cluster on this machine.

`of(home)` finds everything outside the home that belongs to the cluster with that home, also
processes whose parent has exited; after `down` it must be empty. End-to-end tests use it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from localkube.node.network.bridge import BridgeNetwork
from localkube.node.standalone.linux.netlink import Netlink


@dataclass(frozen=True)
class Leftovers:
    processes: dict[int, str]
    links: list[str]
    mounts: list[str]

    def __bool__(self) -> bool:
        return bool(self.processes or self.links or self.mounts)


def of(home: Path) -> Leftovers:
    """Everything of that cluster, except this process and its ancestors."""
    return Leftovers(_processes(str(home)), _links(home), _mounts(str(home)))


def _processes(home: str) -> dict[int, str]:
    ancestors = set()
    pid = os.getpid()
    while pid > 1:
        ancestors.add(pid)
        pid = _parent(pid)
    processes = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) not in ancestors and _mentions(int(name), home):
            processes[int(name)] = _read(f"/proc/{name}/cmdline").replace(b"\0", b" ").decode()
    return processes


def _mentions(pid: int, home: str) -> bool:
    """In arguments (a shim), environment (a pod's first process) or mounts (a container)."""
    return any(
        home.encode() in _read(f"/proc/{pid}/{where}")
        for where in ("cmdline", "environ", "mountinfo")
    )


def _links(home: Path) -> list[str]:
    network = BridgeNetwork(home)
    with Netlink() as net:
        names = net.links()
    return [name for name in names if name == network.bridge or name.startswith(network.prefix)]


def _mounts(home: str) -> list[str]:
    lines = _read("/proc/self/mountinfo").decode().splitlines()
    return [line for line in lines if home in line]


def _parent(pid: int) -> int:
    return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
