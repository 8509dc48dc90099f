"""The processes of one container besides its main process: how to find, stop and kill them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from localkube.node.standalone.linux import kernel

if TYPE_CHECKING:
    from collections.abc import Container


def in_session(leader: int, known: Container[int] = ()) -> dict[int, int]:
    """PID to pidfd of other processes in the session of a main process, which may have exited.

    A process of `exec` has a session of its own.
    """
    handles: dict[int, int] = {}
    for pid in kernel.pids():
        with contextlib.suppress(OSError):  # it has exited
            if pid != leader and pid not in known and os.getsid(pid) == leader:
                handles[pid] = os.pidfd_open(pid)
    return handles


def children_in_session(leader: int) -> dict[int, list[int]]:
    """The pidfds of the children of each process in the session of a main process."""
    children: dict[int, list[int]] = {}
    for pid, handle in in_session(leader).items():
        children.setdefault(kernel.parent(pid), []).append(handle)
    return children


def send(handle: int, number: signal.Signals) -> None:
    """Send a signal to a process, unless it is gone."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def kill_all(leader: int, mounts: int | None) -> None:
    """Kill every process of the container."""
    for _ in range(20):  # a process may fork while we read /proc
        left = [pid for pid in kernel.pids() if _owned(pid, leader, mounts)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _owned(pid: int, leader: int, mounts: int | None) -> bool:
    """Whether a process belongs to the container: by its mount namespace, else by its session.

    The open descriptor keeps the mount namespace alive. Otherwise the kernel could give its number
    to a new namespace, and we would kill the processes of another pod.
    """
    if mounts is None or kernel.same_namespace(mounts, "self"):
        return _session(pid) == leader
    return kernel.same_namespace(mounts, pid)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
