"""Limits of CPU, memory and processes: one control group per container that has one of them.

The groups are below one group per cluster and hierarchy, and are removed with the pod. Version 1 of
control groups has a hierarchy per controller, version 2 one for all of them; `cgroup_search` finds
where this process may make groups. The folders are saved in the data directory, because a later
daemon may find another place, and `arena down` must remove the groups of a killed one.

The values are the kubelet's: a limit of CPU becomes a quota per period of 100 ms, a request of CPU
a weight among containers that compete for the processors, and containers may not use swap. Every
container of a pod has a limit of processes, so that a fork bomb ends in it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kubekit.objects.enforced_limits import ANNOTATIONS, ENFORCED, not_enforced
from localkube.node.standalone.linux import files
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE = "cgroups"
_PERIOD = 100_000
"""Microseconds of the period in which a container may use its quota of CPU."""
_MIN_QUOTA = 1000
_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MIN_PROCESSES, _MAX_PROCESSES = 1024, 16_384
_KERNEL = Path("/proc/sys/kernel")


@dataclass(frozen=True)
class Resources:
    """Limits and requests of a container: CPU in thousandths, memory in bytes, processes with
    their threads."""

    cpu_limit: int | None = None
    cpu_request: int | None = None
    memory_limit: int | None = None
    pids_limit: int | None = None


def processes_per_pod() -> int:
    """The processes and threads that one pod may have.

    A quarter of what the kernel has for everybody, so that one pod cannot keep the machine from
    starting programs; more than any training needs on a large machine.
    """
    numbers = [int((_KERNEL / name).read_text()) for name in ("pid_max", "threads-max")]
    return min(max(min(numbers) // 4, _MIN_PROCESSES), _MAX_PROCESSES)


@dataclass(frozen=True)
class Hierarchy:
    """The cluster's group in one hierarchy, which is made with the first container's group."""

    folder: Path
    version_2: bool
    controllers: tuple[str, ...]
    """Some of `cpu`, `memory` and `pids`."""

    def settings(self, resources: Resources) -> Iterator[tuple[str, str, bool]]:
        """File, value and whether the kernel must accept it, in the order in which they are set."""
        if "cpu" in self.controllers:
            yield from _cpu(resources, self.version_2)
        if "memory" in self.controllers and resources.memory_limit:
            yield from _memory(resources.memory_limit, self.version_2)
        if "pids" in self.controllers and resources.pids_limit:
            yield "pids.max", str(resources.pids_limit), True

    def create(self) -> None:
        """Create the cluster's group, unless it exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.version_2:
            enabled = " ".join(f"+{name}" for name in self.controllers)
            (self.folder / "cgroup.subtree_control").write_text(enabled)

    def set_weight(self, processors: int) -> None:
        """Weigh the cluster's group by the machine's processors, not as one program."""
        if "cpu" in self.controllers and self.version_2:
            _write_if_possible(self.folder / "cpu.weight", str(min(100 * processors, 10_000)))
        elif "cpu" in self.controllers:
            _write_if_possible(self.folder / "cpu.shares", str(1024 * processors))


def _cpu(resources: Resources, version_2: bool) -> Iterator[tuple[str, str, bool]]:
    if resources.cpu_limit:
        quota = max(resources.cpu_limit * _PERIOD // 1000, _MIN_QUOTA)
        if version_2:
            yield "cpu.max", f"{quota} {_PERIOD}", True
        else:
            yield "cpu.cfs_period_us", str(_PERIOD), True
            # Refused if it exceeds the quota of a group above, which is then the stricter limit.
            yield "cpu.cfs_quota_us", str(quota), False
    # In version 2 the group exists for other limits too. Its weight must not be the kernel's own,
    # which is more than that of a container that requests two CPUs.
    request = resources.cpu_request or (0 if version_2 and resources != Resources() else None)
    if request is not None:
        shares = min(max(request * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)
        if version_2:
            span = _MAX_SHARES - _MIN_SHARES
            yield "cpu.weight", str(1 + (shares - _MIN_SHARES) * 9999 // span), False
        else:
            yield "cpu.shares", str(shares), False


def _memory(limit: int, version_2: bool) -> Iterator[tuple[str, str, bool]]:
    if version_2:
        yield "memory.swap.max", "0", False
        # Kill the whole container, not one of its processes, as the kubelet does.
        yield "memory.oom.group", "1", False
        yield "memory.max", str(limit), True
    else:
        yield "memory.limit_in_bytes", str(limit), True
        # After the memory limit: the kernel rejects a value below it.
        yield "memory.memsw.limit_in_bytes", str(limit), False


@dataclass(frozen=True)
class Place:
    """Where groups can be made, and why a resource is missing there."""

    hierarchies: tuple[Hierarchy, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By resource; resources that are limited have none."""
    leaf: Path | None = None
    """The group that this process moved to, so that its own group can have groups below it."""


class ControlGroups:
    """The groups of one cluster's containers. Until `use` there is no place for them."""

    def __init__(self, data_dir: Path, processors: int) -> None:
        self._data_dir = data_dir
        self._processors = processors
        self._place = Place()

    def use(self, place: Place) -> None:
        """Make groups in this place from now on."""
        self._place = place
        folders = [str(hierarchy.folder) for hierarchy in place.hierarchies]
        earlier = [str(folder) for folder in saved_groups(self._data_dir)]
        lines = dict.fromkeys([*folders, *earlier])
        if lines:
            files.write_atomically(self._data_dir / _FILE, "\n".join(lines) + "\n")

    @property
    def enforcement(self) -> dict[str, str]:
        """Whether each resource is limited, as the node publishes it."""
        reasons = self._place.reasons
        return {
            resource: not_enforced(reasons[resource]) if resource in reasons else ENFORCED
            for resource in ANNOTATIONS
        }

    def make(self, name: str, resources: Resources) -> dict[str, object]:
        """Make the container's groups; returns the paths that its shim needs."""
        groups, events = [], ""
        for hierarchy in self._place.hierarchies:
            settings = list(hierarchy.settings(resources))
            if not settings:
                continue
            group = hierarchy.folder / name
            try:
                hierarchy.create()
                hierarchy.set_weight(self._processors)
                group.mkdir(exist_ok=True)
                for file, value, required in settings:
                    write = Path.write_text if required else _write_if_possible
                    write(group / file, value)
            except OSError as error:
                message = f"cannot set the limits of {name}: {error.strerror}"
                raise CannotRun(message) from error
            groups.append(str(group))
            if "memory" in hierarchy.controllers:
                version_1, version_2 = "memory.oom_control", "memory.events"
                events = str(group / (version_2 if hierarchy.version_2 else version_1))
        return {"groups": groups, "events": events} if groups else {}

    def remove(self, prefix: str) -> None:
        """Remove the groups with this prefix; groups in use stay."""
        for folder in saved_groups(self._data_dir):
            for group in folder.iterdir():
                if group.is_dir() and group.name.startswith(prefix):
                    with contextlib.suppress(OSError):
                        group.rmdir()

    def close(self) -> None:
        """Remove all groups."""
        self.remove("")
        for folder in saved_groups(self._data_dir):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if not saved_groups(self._data_dir):  # else the next `down` removes the rest
            (self._data_dir / _FILE).unlink(missing_ok=True)
        if self._place.leaf is not None:
            _leave(self._place.leaf)


def saved_groups(data_dir: Path) -> list[Path]:
    """The groups of the cluster with this data directory that exist."""
    try:
        lines = (data_dir / _FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [folder for folder in map(Path, lines) if folder.is_dir()]


def _leave(leaf: Path) -> None:
    """Move this process back to the group above, and remove its leaf."""
    group = leaf.parent
    with contextlib.suppress(OSError):
        enabled = (group / "cgroup.subtree_control").read_text().split()
        (group / "cgroup.subtree_control").write_text(" ".join(f"-{name}" for name in enabled))
        (group / "cgroup.procs").write_text("0")
        leaf.rmdir()


def _write_if_possible(file: Path, text: str) -> None:
    """Write a setting that some kernels lack or refuse."""
    with contextlib.suppress(OSError):
        file.write_text(text)
