"""Starts the main process of a container: in the pod's namespaces, in a root directory of its own.

`spec` is the file of that name in the attempt's directory.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, NamedTuple

from localkube.node.standalone import spawn
from localkube.node.standalone.linux import cgroup, kernel, mounts


class MainProcess(NamedTuple):
    """A started process, and the descriptors that its shim keeps."""

    pid: int
    mounts: int | None
    """Its mount namespace; None if the kernel killed it early, at its memory limit."""
    terminal: int
    """The other end of its terminal; -1 without one."""


def start(spec: dict[str, Any], stdio: tuple[int, int, int]) -> MainProcess:
    """Start it. Its ends of the streams are closed here: else we would never read end of file."""
    fds = kernel.open_namespaces(spec["pause"]) if "pause" in spec else {}
    if pod_has_ended(spec) or ("pause" in spec and not {"pid", "mnt"} <= fds.keys()):
        raise ProcessLookupError(errno.ESRCH, "the pod's first process has exited")
    pid_namespace, pods_mounts = fds.pop("pid", -1), fds.pop("mnt", -1)
    shim = os.getpid()

    def prepare() -> list[int]:
        # The control groups are entered first: the pod's mounts do not show them.
        cgroup.enter(cgroup.open_procs(spec["limits"]))
        kernel.enter(fds)
        # After the user namespace, which clears it. A child of a killed shim must not go on: it
        # would make the pod's directories again after they were removed.
        kernel.die_with_parent(signal.SIGKILL, shim)
        if pods_mounts >= 0:
            pod = (spec["pod"], pods_mounts)
            own = mounts.build(spec["root"], spec["steps"], spec["hidden"], spec["own"], pod)
        else:
            own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        return [own, _own_terminal()] if spec["tty"] else [own]

    argv, env, cwd = spec["argv"], spec["env"], spec["cwd"]
    program = spawn.Program(argv, env, cwd, spec["tty"], prepare, pid_namespace)
    pid, descriptors = spawn.start(program, stdio)
    for fd in {*stdio, *fds.values(), pid_namespace, pods_mounts} - {-1}:
        os.close(fd)
    terminal = descriptors[1] if spec["tty"] and descriptors else -1
    return MainProcess(pid, descriptors[0] if descriptors else None, terminal)


def pod_has_ended(spec: dict[str, Any]) -> bool:
    """Whether the pod's first process is gone. Another process may have its PID by now."""
    if "pause" not in spec:  # without namespaces
        return False
    same = kernel.start_time(spec["pause"]) == spec["pause_started"]
    return not same or kernel.is_exiting(spec["pause"])


def _own_terminal() -> int:
    """Move our streams to a new terminal of the container's /dev; returns its other end."""
    controller, terminal = os.openpty()
    for fd in (0, 1, 2):
        os.dup2(terminal, fd)
    return controller
