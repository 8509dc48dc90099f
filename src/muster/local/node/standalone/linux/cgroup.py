"""A container's control group as its shim uses it: enter, check for OOM kills, remove.

The daemon creates the group and passes its paths in the shim's spec as `{"group", "events"}`.
"""

from __future__ import annotations

import contextlib
import os

from muster.local.node.standalone.linux import files


def open_procs(memory: dict[str, str]) -> int:
    """A descriptor for `enter`, opened while the group is still visible; -1 without a limit."""
    if memory:
        with contextlib.suppress(OSError):
            return os.open(f"{memory['group']}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    return -1


def enter(procs: int) -> None:
    """Put this process, and so its children, into the group."""
    if procs >= 0:
        # The kernel forbids it to a user who owns the new group but not the old one.
        with contextlib.suppress(PermissionError):
            os.write(procs, b"0")  # 0 is the writing process
        os.close(procs)


def killed_for_memory(memory: dict[str, str]) -> bool:
    """Whether the kernel killed a process of the group for lack of memory."""
    if not memory:
        return False
    with contextlib.suppress(OSError):
        for line in files.read(memory["events"]).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and int(count):
                return True
    return False


def remove(memory: dict[str, str]) -> None:
    """Remove the group; if a process is still in it, the daemon removes it later."""
    if memory:
        with contextlib.suppress(OSError):
            os.rmdir(memory["group"])
