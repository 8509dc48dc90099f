"""A container's control groups as its shim uses them: enter, check for OOM kills, remove.

The daemon creates the groups and passes their paths in the shim's spec as `{"groups", "events"}`;
without a limit the object is empty.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from localkube.node.standalone.linux import files


def open_procs(limits: dict[str, Any]) -> list[int]:
    """Descriptors for `enter`, opened while the groups are still visible."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    return [os.open(f"{group}/cgroup.procs", flags) for group in limits.get("groups", ())]


def enter(procs: list[int]) -> None:
    """Put this process, and so its children, into the groups."""
    admit(procs, 0)  # 0 is the writing process


def admit(procs: list[int], pid: int) -> None:
    """Put a process, and so its children, into the groups."""
    for fd in procs:
        os.write(fd, str(pid).encode())
        os.close(fd)


def killed_for_memory(limits: dict[str, Any]) -> bool:
    """Whether the kernel killed a process of the group for lack of memory."""
    if not limits.get("events"):
        return False
    with contextlib.suppress(OSError):
        for line in files.read(limits["events"]).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and int(count):
                return True
    return False


def remove(limits: dict[str, Any]) -> None:
    """Remove the groups; if a process is still in one, the daemon removes it later."""
    for group in limits.get("groups", ()):
        with contextlib.suppress(OSError):
            os.rmdir(group)
