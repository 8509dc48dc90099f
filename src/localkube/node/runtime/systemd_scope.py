"""Asks systemd for a scope, a control group that it leaves to us, with this process in it.

Only systemd can move a process of a login session to a group that the user owns. The scope of a
user ends with the user's manager. That manager ends at the last logout unless the user lingers,
whereas a process of a login session goes on: a cluster started in such a session moves only if the
user lingers, because training that ends at logout is worse than limits that are not enforced.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path

_SYSTEMD = Path("/run/systemd/system")
_LINGER = Path("/var/lib/systemd/linger")
_PATIENCE = 2.0
"""Seconds for systemd to move this process."""
_CALL = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "StartTransientUnit",
    "ssa(sv)a(sa(sv))",
)

SEE = "see Limits in docs/localkube/node.md"
"""The next step, where there is no command for it."""


def enter_scope(name: str) -> str:
    """Move this process to a new scope; returns why it cannot be moved, or nothing."""
    bus = shutil.which("busctl")
    if not _SYSTEMD.is_dir() or bus is None:
        return f"no control group is delegated to this user ({SEE})"
    if os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return "this service has no Delegate=yes"  # the manager must find it where it started it
    reason = "" if os.geteuid() == 0 else _why_not_as_user(_own_group())
    return reason or _start(bus, f"{name}-{os.getpid()}.scope")


def _why_not_as_user(own_group: str) -> str:
    uid = os.geteuid()
    name = _user_name(uid)
    if f"/user@{uid}.service/" not in own_group and not (_LINGER / name).exists():
        return (
            "a login session delegates no control group; after `sudo loginctl enable-linger "
            f"{name}`, `arena down` and `arena up` they are enforced"
        )
    if not _bus_socket().exists():
        return f"systemd runs no manager with a D-Bus socket for this user ({SEE})"
    return ""


def _start(bus: str, unit: str) -> str:
    manager = "--system" if os.geteuid() == 0 else "--user"
    properties = (
        *("PIDs", "au", "1", str(os.getpid())),
        *("Delegate", "b", "true"),
        *("Description", "s", "Muster's local cluster and its pods"),
        *("CollectMode", "s", "inactive-or-failed"),
    )
    result = subprocess.run(
        [bus, manager, "call", *_CALL, unit, "fail", "4", *properties, "0"],
        env=os.environ | {"XDG_RUNTIME_DIR": str(_bus_socket().parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"busctl exited with {result.returncode}"]
        return f"systemd delegates no control group: {lines[-1]}"
    deadline = time.monotonic() + _PATIENCE
    while not _own_group().endswith(f"/{unit}"):
        if time.monotonic() > deadline:
            return "systemd did not move the cluster to a control group of its own"
        time.sleep(0.002)  # there is no event for it
    return ""


def _own_group() -> str:
    """The group of this process in version 2."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return line.removeprefix("0::")
    return ""


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _bus_socket() -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    return Path(folder, "bus")
