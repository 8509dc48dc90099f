"""Where the model directory of a pod is on this machine: through the volumes that it mounts."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import MissingReference
from muster.jobs.exported_models import MODEL_DIR, MODEL_NAME, Maker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.node.pod import Pod, VolumeMount
    from muster.local.node.volumes.directories import VolumeDirectories
    from muster.local.node.volumes.volume_sources import HostPath, Volume


class Location(NamedTuple):
    """A directory of this machine: the volume's own, and the path below it."""

    top: str
    path: str
    is_of_pod: bool = False
    """Whether the volume is in the pod's folder, which other pods do not see."""


def model_directory(pod: Pod) -> str:
    """The directory that the pod's annotation names; empty without one."""
    return pod.metadata.annotations.get(MODEL_DIR, "")


def maker(pod: Pod) -> Maker:
    """The job of the pod."""
    owner = pod.metadata.controller
    if owner is None:
        return Maker("v1", "Pod", pod.metadata.name, pod.metadata.uid)
    return Maker(owner.api_version, owner.kind, owner.name, owner.uid)


def model_name(pod: Pod) -> str:
    return pod.metadata.labels.get(MODEL_NAME) or maker(pod).name


def locate(pod: Pod, volumes: VolumeDirectories, claims: Mapping[str, HostPath]) -> Location:
    """The model directory of a pod on this machine; MissingReference says why there is none."""
    directory = posixpath.normpath(model_directory(pod))
    if not directory.startswith("/") or "\0" in directory:
        raise MissingReference(f"{MODEL_DIR} {directory!r} is not an absolute path")
    mounts = [
        (mount, inside)
        for container in pod.spec.containers
        for mount in container.volume_mounts
        if (inside := _inside(directory, mount.mount_path)) is not None
    ]
    if not mounts:
        raise MissingReference(
            f"{MODEL_DIR} {directory} is in no volume of the pod, so its models are not listed"
        )
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
        raise MissingReference(f'{MODEL_DIR}: volume "{volume.name}" has a subPathExpr')
    if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
        raise MissingReference(f'{MODEL_DIR}: volume "{volume.name}" is in memory')
    return volume
