"""Where a directory that a pod sees is on this machine: through the volumes that it mounts.

A caller of the cluster may watch files of pods (`Settings.watchers` of the agent): `PodFolders` is
all that such a watcher needs of the node.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MissingReference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.node.config_maps_and_secrets import ReferenceReader
    from localkube.node.events import PodEvents
    from localkube.node.pod import Pod, VolumeMount
    from localkube.node.volumes.directories import VolumeDirectories
    from localkube.node.volumes.volume_sources import HostPath, Volume


class Location(NamedTuple):
    """A directory of this machine: the volume's own, and the path below it."""

    top: str
    path: str
    is_of_pod: bool = False
    """Whether the volume is in the pod's folder, which other pods do not see."""


@dataclass(frozen=True)
class PodFolders:
    """The directories of the pods on these nodes."""

    nodes: frozenset[str]
    pods: Informer[Pod]
    references: ReferenceReader
    volumes: VolumeDirectories
    events: PodEvents

    def subscribe(self, on_change: Callable[[Change[Pod]], None]) -> None:
        """Tell of every change of a pod on these nodes."""

        def changed(change: Change[Pod]) -> None:
            if change.current.spec.node_name in self.nodes:
                on_change(change)

        self.pods.subscribe(changed)

    async def locate(self, pod: Pod, directory: str) -> Location | None:
        """Where a directory of the pod is on this machine; None while a claim is not bound yet.

        MissingReference says why it is nowhere.
        """
        try:
            claims = await self.references.claims(pod)
            return locate(pod, directory, self.volumes, claims)
        except MissingReference:
            if _waits_for_claim(pod):
                return None
            raise

    def is_hidden(self, path: str) -> bool:
        """Whether pods must not see this path of the machine."""
        return self.volumes.is_hidden(path)

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """A warning about the pod, once for all pods of its owner."""
        self.events.record_once_per_owner(pod, reason, message, warning=True)


def locate(
    pod: Pod, directory: str, volumes: VolumeDirectories, claims: Mapping[str, HostPath]
) -> Location:
    """Where a directory of a pod is; MissingReference says why it is nowhere."""
    directory = posixpath.normpath(directory)
    if not directory.startswith("/") or "\0" in directory:
        raise MissingReference(f"{directory!r} is not an absolute path")
    mounts = [
        (mount, inside)
        for container in pod.spec.containers
        for mount in container.volume_mounts
        if (inside := _inside(directory, mount.mount_path)) is not None
    ]
    if not mounts:
        raise MissingReference(f"{directory} is in no volume of the pod")
    mount, inside = max(mounts, key=lambda row: len(posixpath.normpath(row[0].mount_path)))
    volume = _volume(pod, mount)
    top, path = volumes.directory(volume, pod, claims), posixpath.join(mount.sub_path, inside)
    if volume.empty_dir is not None:
        return Location(top, path, is_of_pod=True)
    # The pod sees an empty directory in place of a hidden one in its volume; so must we.
    volumes.refuse_hidden(posixpath.join(top, path))
    return Location(top, path)


def _inside(path: str, folder: str) -> str | None:
    """The path relative to a folder that contains it."""
    folder = posixpath.normpath(folder).rstrip("/")
    if path == folder:
        return "."
    return path[len(folder) + 1 :] if path.startswith(f"{folder}/") else None


def _volume(pod: Pod, mount: VolumeMount) -> Volume:
    volume = next((row for row in pod.spec.volumes if row.name == mount.name), None)
    if volume is None:
        raise MissingReference(f'volume "{mount.name}" not found')
    if mount.sub_path_expr:
        raise MissingReference(f'volume "{volume.name}" has a subPathExpr')
    if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
        raise MissingReference(f'volume "{volume.name}" is in memory')
    return volume


def _waits_for_claim(pod: Pod) -> bool:
    """Whether a claim of the pod may be bound later."""
    has_claim = any(row.persistent_volume_claim is not None for row in pod.spec.volumes)
    return has_claim and not pod.finished and pod.status.phase != "Running"
