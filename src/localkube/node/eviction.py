"""Evicts pods that use too much of the machine's disk.

The usage is measured periodically, as the kubelet does: emptyDir volumes, private directories and
logs, all of them in the pod's own folder. Directories of the host are mounted only inside the pod's
namespaces, so they do not count, and neither do volumes in memory. As with `du`, a file that is
deleted and still open is not seen.

Limits are those of the kubelet: the sizeLimit of an emptyDir, the `ephemeral-storage` limits of all
containers together for the whole pod, and that of one container for its own files and logs. A pod
without such a limit may use at most as much disk as it leaves free, so one pod cannot fill the
disk. What little it uses never counts against it: a disk may be full for other reasons.

The status of an evicted pod becomes Failed here. The pod loop then stops the pod and deletes its
files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError, describe
from kubekit.objects import enforced_limits, quantity
from kubekit.objects.enforced_limits import EVICTED
from kubekit.objects.kinds import PODS
from kubekit.telemetry import unexpected_errors
from kubekit.telemetry.unexpected_errors import RepeatedLine
from localkube.node.pod import Container, Pod, is_sidecar_container

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.watch.informer import Informer
    from localkube.node.pod_events import PodEvents

log = logging.getLogger(__name__)
_not_measured = RepeatedLine(log, logging.WARNING)

_INTERVAL = 5.0
_PAUSE_PER_WORK = 20.0
"""Pods with millions of files take long to measure: it may cost a twentieth of a processor."""
_STORAGE = "ephemeral-storage"
_LITTLE = 100
"""The part of the disk, as a divisor, that a pod without a limit may always use."""
_BLOCK = 512
"""Bytes of the unit of st_blocks, whatever the file system."""


@dataclass(frozen=True)
class Evictor:
    client: Client
    nodes: frozenset[str]
    pods: Informer[Pod]
    folder: Path
    """Contains one directory per pod."""
    events: PodEvents

    async def run(self) -> None:
        """Check all pods again and again, until cancelled."""
        await self.pods.synced()
        while True:
            work = 0.0
            for pod in list(self.pods.all()):
                if pod.spec.node_name in self.nodes and not pod.finished:
                    work += await self._check(pod)
            await asyncio.sleep(max(_INTERVAL, _PAUSE_PER_WORK * work))

    async def _check(self, pod: Pod) -> float:
        """Evict the pod if it must be; returns the processor time that this took."""
        with unexpected_errors.isolated("eviction", pod.metadata.key):
            try:
                message, work = await asyncio.to_thread(self._measure, pod)
            except OSError as error:  # one pod's trouble must not end the checks of the others
                _not_measured.log("the disk usage of pod %s: %s", pod.metadata.key, describe(error))
                return 0.0
            if message:
                await self._evict(pod, message)
            return work
        return 0.0

    async def _evict(self, pod: Pod, message: str) -> None:
        log.warning("pod %s is evicted: %s", pod.metadata.key, message)
        self.events.record(pod, EVICTED, message, warning=True)
        # Without a DisruptionTarget condition, as with the kubelet: it is the pod's own failure.
        status = {"phase": "Failed", "reason": EVICTED, "message": message}
        with contextlib.suppress(MusterError):  # the pod is gone, or the next check repeats it
            await self.client.patch_status(PODS, pod.metadata, status)

    def _measure(self, pod: Pod) -> tuple[str, float]:
        """Why the pod must be evicted, and the processor time of this thread for it."""
        folder, started = self.folder / pod.metadata.uid, time.thread_time()
        if not folder.is_dir():  # it has not started yet
            return "", 0.0
        machine = shutil.disk_usage(folder)
        disk = Disk(machine.total, machine.free)
        message = over_limit(pod, disk_usage(folder), disk)
        return message, time.thread_time() - started


def over_limit(pod: Pod, usage: DiskUsage, disk: Disk) -> str:
    """Why the pod must be evicted; empty if it may go on."""
    limited = dict(_limited_volumes(pod))
    for name, limit in limited.items():
        if usage.volumes.get(name, 0) > quantity.parse_whole(limit):
            return enforced_limits.volume_over_limit(name, limit)
    pod_limit = _pod_limit(pod)
    if pod_limit is not None and usage.total > pod_limit:
        return enforced_limits.pod_over_limit(quantity.format_bytes(pod_limit))
    if message := _container_over_limit(pod, usage):
        return message
    if pod_limit is not None:
        return ""
    unlimited = usage.total - sum(usage.volumes.get(name, 0) for name in limited)
    if unlimited > max(disk.free, disk.size // _LITTLE):
        return enforced_limits.pod_over_default_limit(
            quantity.format_bytes(unlimited), quantity.format_bytes(disk.free)
        )
    return ""


def _limited_volumes(pod: Pod) -> Iterator[tuple[str, str]]:
    """The emptyDir volumes on disk that have a size limit, with it; the kernel limits those in
    memory."""
    for volume in pod.spec.volumes:
        source = volume.empty_dir
        if source is not None and source.size_limit is not None and source.medium != "Memory":
            yield volume.name, str(source.size_limit)


def _pod_limit(pod: Pod) -> int | None:
    """The limit of the whole pod; None if no container has one.

    Unlike the kubelet, an init container alone does not limit the pod: it ends before the others
    start, and some tools give a small limit to theirs.
    """
    sidecars = [c for c in pod.spec.init_containers if is_sidecar_container(c)]
    at_once = [limit for c in (*sidecars, *pod.spec.containers) if (limit := _limit(c)) is not None]
    alone = [limit for c in pod.spec.init_containers if (limit := _limit(c)) is not None]
    return max([sum(at_once), *alone]) if at_once else None


def _limit(container: Container) -> int | None:
    value = container.resources.limits.get(_STORAGE)
    return None if value is None else quantity.parse_whole(value)


def _container_over_limit(pod: Pod, usage: DiskUsage) -> str:
    for container in pod.all_containers:
        limit = _limit(container)
        if limit is not None and usage.containers.get(container.name, 0) > limit:
            text = str(container.resources.limits[_STORAGE])
            return enforced_limits.container_over_limit(container.name, text)
    return ""


@dataclass(frozen=True)
class DiskUsage:
    """Bytes on disk."""

    volumes: dict[str, int] = field(default_factory=dict)
    """By name; volumes with files of API objects too, which are small."""
    containers: dict[str, int] = field(default_factory=dict)
    """By name: private directories and logs."""
    other: int = 0

    @property
    def total(self) -> int:
        return sum(self.volumes.values()) + sum(self.containers.values()) + self.other


class Disk(NamedTuple):
    """The file system of the pods' folders, in bytes."""

    size: int
    free: int


def disk_usage(pod: Path) -> DiskUsage:
    """The usage of the pod with this folder; nothing if it has none."""
    by_name: dict[str, dict[str, int]] = {"volumes": {}, "containers": {}}
    other = 0
    for entry in _entries(str(pod)):
        if entry.name in by_name:
            by_name[entry.name] = {each.name: _size(each) for each in _entries(entry.path)}
        else:
            other += _size(entry)
    return DiskUsage(**by_name, other=other)


def _size(top: os.DirEntry[str]) -> int:
    """Bytes on disk of a file, or of a directory with all that is in it."""
    total, todo = 0, [top]
    seen: set[tuple[int, int]] = set()
    while todo:
        entry = todo.pop()
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:  # it was deleted
            continue
        if entry.is_dir(follow_symlinks=False):
            todo += _entries(entry.path)
        elif info.st_nlink > 1:
            if (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
        # Blocks, not the size: a sparse file takes less disk than its size.
        total += info.st_blocks * _BLOCK
    return total


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # deleted, or not ours to read
        return []
