"""Finds the group below which this process may create control groups.

Version 1 allows it to root, below the own group of each controller. Version 2 has rules: a group
with processes cannot have groups below it that limit something, and who moves a process must own a
group above both its old and its new group. So the places are tried in this order:

1. The own group, if it was delegated to us and no other program is in it: this process moves to a
   leaf below it.
2. A new systemd scope with only this process in it, which is then case 1. Root asks the system's
   manager, other users their own.
3. The nearest group above that distributes its controllers already and belongs to us.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from localkube.data_directory import cluster_hash
from localkube.node.runtime.cgroups import Hierarchy, Place

if TYPE_CHECKING:
    from collections.abc import Callable

RESOURCES = ("cpu", "memory", "pids")
LEAF = "muster-daemon"
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


def find_place(data_dir: Path, machine: Machine | None = None) -> Place:
    """The place for the groups of the cluster with this data directory. Moves this process to
    another group if version 2 needs it."""
    machine = machine or Machine()
    name = f"muster-{cluster_hash(data_dir)[:8]}"
    found = _version_1(machine, name)
    limited = {controller for hierarchy in found for controller in hierarchy.controllers}
    wanted = tuple(resource for resource in RESOURCES if resource not in limited)
    unified = next((mount.root for mount in machine.mounts() if mount.version_2), None)
    leaf, reason = None, ""
    if wanted and unified is not None and _is_served(unified, wanted):
        search = _Version2(machine, unified, name, wanted)
        hierarchy, leaf, reason = search.find()
        found += [hierarchy] if hierarchy else []
        limited |= set(hierarchy.controllers) if hierarchy else set()
    reason = reason or _why_none(machine)
    return Place(tuple(found), {r: reason for r in RESOURCES if r not in limited}, leaf)


def _why_none(machine: Machine) -> str:
    old = any(not row.version_2 and row.options & set(RESOURCES) for row in machine.mounts())
    if old and os.geteuid() != 0:
        return (
            "only root may use the control groups of this machine, which are of version 1; a "
            f"cluster that root starts enforces them ({SEE})"
        )
    return f"no control group is delegated to this user ({SEE})"


def _version_1(machine: Machine, name: str) -> list[Hierarchy]:
    own = machine.own_groups()
    found = []
    for mount in machine.mounts():
        controllers = tuple(r for r in RESOURCES if r in mount.options and r in own)
        if not mount.version_2 and controllers:
            group = mount.root / own[controllers[0]].strip("/") / name
            hierarchy = Hierarchy(group, version_2=False, controllers=controllers)
            if _works(hierarchy):
                found.append(hierarchy)
    return found


def _is_served(root: Path, wanted: tuple[str, ...]) -> bool:
    """Whether version 2 has any of these controllers: one that version 1 uses is missing there."""
    return bool(set(_words(root / "cgroup.controllers")) & set(wanted))


class _Version2(NamedTuple):
    machine: Machine
    root: Path
    name: str
    wanted: tuple[str, ...]

    def find(self) -> tuple[Hierarchy | None, Path | None, str]:
        """The hierarchy and the leaf of this process; or why there is none."""
        leaf, reason = self._make_leaf(), ""
        # The leaf of an earlier search is found below.
        if leaf is None and self._own().name != LEAF:
            reason = self.machine.enter_scope(self.name)
            leaf = None if reason else self._make_leaf()
        own = self._own()
        above = [group for group in (own, *own.parents) if group.is_relative_to(self.root)]
        groups = [leaf.parent] if leaf else [group for group in above if _is_ours(group)]
        places = [(group, self._available(group, leaf)) for group in groups]
        # The nearest of the groups that limit the most resources.
        for group, controllers in sorted(places, key=lambda place: -len(place[1])):
            hierarchy = Hierarchy(group / self.name, version_2=True, controllers=controllers)
            if controllers and _works(hierarchy):
                missing = [r for r in self.wanted if r not in controllers]
                reason = f"systemd does not delegate {missing[0]} ({SEE})" if missing else ""
                return hierarchy, leaf, reason
        return None, leaf, reason

    def _own(self) -> Path:
        return self.root / self.machine.own_groups()[""].strip("/")

    def _available(self, group: Path, leaf: Path | None) -> tuple[str, ...]:
        """The controllers that the group distributes; with a leaf, all that it has."""
        file = "cgroup.controllers" if leaf else "cgroup.subtree_control"
        return tuple(r for r in self.wanted if r in _words(group / file))

    def _make_leaf(self) -> Path | None:
        """Move this process to a leaf of its own group, so that groups beside it can be limited;
        None if the group is not ours alone."""
        own = self._own()
        controllers = [r for r in self.wanted if r in _words(own / "cgroup.controllers")]
        alone = _words(own / "cgroup.procs") == [str(self.machine.pid)]
        if own.name == LEAF or not controllers or not alone or not _is_ours(own):
            return None
        leaf = own / LEAF
        try:
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(str(self.machine.pid))
            enabled = " ".join(f"+{name}" for name in controllers)
            (own / "cgroup.subtree_control").write_text(enabled)
        except OSError:
            return None
        return leaf


def _is_ours(group: Path) -> bool:
    """Whether we may create groups here and move processes between them."""
    return os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)


def _works(hierarchy: Hierarchy) -> bool:
    """Whether the cluster's group can be made, and processes put into groups below it."""
    trial = hierarchy.folder / "trial"
    try:
        hierarchy.create()
        trial.mkdir(exist_ok=True)
        (trial / "cgroup.procs").open("a").close()
    except OSError:
        return False
    finally:
        for folder in (trial, hierarchy.folder):
            with contextlib.suppress(OSError):  # it stays if pods of an earlier daemon use it
                folder.rmdir()
    return True


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


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
            return "systemd did not move the cluster to its own control group"
        time.sleep(0.002)  # there is no event for it
    return ""


def _own_group() -> str:
    """The group of this process in version 2."""
    with contextlib.suppress(OSError):
        return Machine().own_groups().get("", "")
    return ""


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _bus_socket() -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    return Path(folder, "bus")


class Mount(NamedTuple):
    """A file system of control groups."""

    version_2: bool
    root: Path
    options: frozenset[str]


@dataclass(frozen=True)
class Machine:
    """Where the kernel and systemd show their state; tests have their own."""

    proc: Path = Path("/proc/self")
    pid: int = field(default_factory=os.getpid)
    enter_scope: Callable[[str], str] = enter_scope

    def own_groups(self) -> dict[str, str]:
        """The group of this process by controller; that of version 2 under the empty name."""
        groups: dict[str, str] = {}
        # 4:memory:/user.slice, or 0::/user.slice for version 2
        for line in (self.proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups |= dict.fromkeys(controllers.split(","), path)
        return groups

    def mounts(self) -> list[Mount]:
        mounts = []
        for line in (self.proc / "mountinfo").read_text().splitlines():
            # Mount point and more, a hyphen, then type, source and options.
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                root = Path(before.split(" ")[4])
                mounts.append(Mount(kind == "cgroup2", root, frozenset(options.split(","))))
        return mounts
