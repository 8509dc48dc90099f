"""Whether a pod uses too much disk: pure.

Limits are those of the kubelet: the sizeLimit of an emptyDir, the `ephemeral-storage` limits of all
containers together for the whole pod, and that of one container for its own files and logs. A pod
without such a limit may use at most as much disk as it leaves free, so one pod cannot fill the
disk. What little it uses never counts against it: a disk may be full for other reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects import limits, quantity
from localkube.node.pod import is_sidecar_container

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localkube.node.eviction.disk_usage import Disk, DiskUsage
    from localkube.node.pod import Container, Pod

_STORAGE = "ephemeral-storage"
_LITTLE = 100
"""The part of the disk, as a divisor, that a pod without a limit may always use."""


def over_limit(pod: Pod, usage: DiskUsage, disk: Disk) -> str:
    """Why the pod must be evicted; empty if it may go on."""
    limited = dict(_limited_volumes(pod))
    for name, limit in limited.items():
        if usage.volumes.get(name, 0) > quantity.parse_whole(limit):
            return limits.volume_over_limit(name, limit)
    pod_limit = _pod_limit(pod)
    if pod_limit is not None and usage.total > pod_limit:
        return limits.pod_over_limit(quantity.format_bytes(pod_limit))
    if message := _container_over_limit(pod, usage):
        return message
    if pod_limit is not None:
        return ""
    unlimited = usage.total - sum(usage.volumes.get(name, 0) for name in limited)
    if unlimited > max(disk.free, disk.size // _LITTLE):
        return limits.pod_over_default_limit(
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
            return limits.container_over_limit(container.name, text)
    return ""
