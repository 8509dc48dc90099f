"""Memory limits: one control group per container with a limit, where the machine allows it.

The groups are below one group per cluster, and are removed with the pod. Both versions of control
groups work; `/proc` tells which one controls memory. On a machine without control groups pods run
without limits, and `arena status` shows it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from muster.errors import CannotRun
from muster.local.home import cluster_hash

_V1 = ("memory.limit_in_bytes", "memory.oom_control")
_V2 = ("memory.max", "memory.events")


@dataclass(frozen=True)
class MemoryCgroups:
    """The cluster's group. `folder` is made with the first container's group."""

    folder: Path
    version_2: bool

    def make(self, name: str, limit: int) -> dict[str, str]:
        """Make a group with this limit; returns the paths that the shim needs."""
        group = self.folder / name
        maximum, events = _V2 if self.version_2 else _V1
        try:
            group.mkdir(parents=True, exist_ok=True)
            if self.version_2:
                (self.folder / "cgroup.subtree_control").write_text("+memory")
                _write_if_possible(group / "memory.swap.max", "0")
                # Kill the whole container, not one of its processes, as the kubelet does.
                _write_if_possible(group / "memory.oom.group", "1")
            (group / maximum).write_text(str(limit))
            if not self.version_2:  # after the memory limit: the kernel rejects a value below it
                _write_if_possible(group / "memory.memsw.limit_in_bytes", str(limit))
        except OSError as error:
            raise CannotRun(f"cannot set the memory limit: {error.strerror}") from error
        return {"group": str(group), "events": str(group / events)}

    def remove(self, prefix: str) -> None:
        """Remove the groups with this prefix; groups in use stay."""
        if self.folder.is_dir():
            for group in self.folder.iterdir():
                if group.is_dir() and group.name.startswith(prefix):
                    with contextlib.suppress(OSError):
                        group.rmdir()

    def close(self) -> None:
        """Remove all groups."""
        self.remove("")
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def _write_if_possible(file: Path, text: str) -> None:
    """Write a setting that some kernels lack. Without it the limit holds, but swap extends it."""
    with contextlib.suppress(OSError):
        file.write_text(text)


def find_memory_cgroups(data_dir: Path, proc: Path = Path("/proc/self")) -> MemoryCgroups | None:
    """The first group below which this process may set memory limits; None if there is none."""
    own_groups = _own_groups((proc / "cgroup").read_text())
    for kind, root, options in _mounts((proc / "mountinfo").read_text()):
        if kind == "cgroup" and "memory" in options and "memory" in own_groups:
            parents = [root / own_groups["memory"].strip("/")]
        elif kind == "cgroup2" and "" in own_groups:
            parents = [p for p in _upwards(root, own_groups[""]) if _delegates(p)]
        else:
            continue
        for parent in parents:
            group = parent / f"muster-{cluster_hash(data_dir)[:8]}"
            if _can_create(group):
                return MemoryCgroups(group, version_2=kind == "cgroup2")
    return None


def _own_groups(text: str) -> dict[str, str]:
    """The group of this process by controller; that of version 2 under the empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():  # 4:memory:/user.slice, or 0::/user.slice for version 2
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _mounts(text: str) -> list[tuple[str, Path, list[str]]]:
    """Type, mount point and options of every control group file system."""
    mounts = []
    for line in text.splitlines():
        # Mount point and more, a hyphen, then type, source and options.
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind.startswith("cgroup"):
            mounts.append((kind, Path(before.split(" ")[4]), options.split(",")))
    return mounts


def _upwards(root: Path, own: str) -> list[Path]:
    group = root / own.strip("/")
    return [group, *(parent for parent in group.parents if parent.is_relative_to(root))]


def _delegates(parent: Path) -> bool:
    """Whether groups below this one control memory.

    We enable this only in our own group: the kernel refuses it in a group with processes, and the
    groups of others are not ours to change.
    """
    try:
        return "memory" in (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _can_create(group: Path) -> bool:
    """Whether the group can be made, and processes put into groups below it."""
    trial = group / "trial"
    try:
        group.mkdir(exist_ok=True)
        trial.mkdir(exist_ok=True)
        (trial / "cgroup.procs").open("a").close()
    except OSError:
        return False
    finally:
        for folder in (trial, group):  # the group stays if pods of an earlier daemon use it
            with contextlib.suppress(OSError):
                folder.rmdir()
    return True
