"""A container's control group, seen from its shim: entered, asked about, removed.

The daemon's `runtime/memory.py` makes it and names it in the shim's spec as `{"group", "events"}`.
"""

from __future__ import annotations

import contextlib
import os

from muster.local.node.standalone.linux import files


def door(memory: dict[str, str]) -> int:
    """A descriptor for `enter`, to be opened where the group can be seen; -1 if there is no limit.
    Where groups are ours but the one we come from is not, even entering is forbidden."""
    if memory:
        with contextlib.suppress(OSError):
            return os.open(f"{memory['group']}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    return -1


def enter(door: int) -> None:
    """Put this process, and so its children, into the group."""
    if door >= 0:
        with contextlib.suppress(PermissionError):
            os.write(door, b"0")
        os.close(door)


def killed_for_memory(memory: dict[str, str]) -> bool:
    """Whether the kernel killed anything in the group because its memory was used up."""
    if not memory:
        return False
    with contextlib.suppress(OSError):
        for line in files.read(memory["events"]).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and int(count):
                return True
    return False


def remove(memory: dict[str, str]) -> None:
    """Remove the group; what stays, because something in it is not gone yet, the daemon sweeps."""
    if memory:
        with contextlib.suppress(OSError):
            os.rmdir(memory["group"])
