"""A pod's volumes as directories on the host, which containers mount.

`prepare` makes them before a container starts; `refresh` updates them when one of their objects has
changed. A volume appears complete or not at all.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from kubekit.errors import MissingReference
from kubekit.objects import quantity
from localkube.node import env
from localkube.node.runtime.remove_tree import remove_tree
from localkube.node.runtime.rootfs.plan import Mount
from localkube.node.standalone.linux.files import inside
from localkube.node.volumes.atomic_writer import VolumeFile, replace_files
from localkube.node.volumes.volume_files import volume_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from localkube.node.env import PodContext
    from localkube.node.pod import Container, Pod
    from localkube.node.volumes.volume_sources import HostPath, Volume

CLAIMS_FOLDER = "volumes"
"""In the data directory: the directories of claims, which outlive their pods."""


def in_memory(pod: Pod) -> dict[str, str]:
    """The emptyDir volumes in memory, with their mount options."""
    options = {}
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
            limit = volume.empty_dir.size_limit
            size = f",size={quantity.parse_whole(limit)}" if limit else ""
            options[volume.name] = f"mode=1777{size}"
    return options


class VolumeDirectories:
    """Volumes are in the pod's own folder, or anywhere on the machine (hostPath, claims).

    That path may not be in a hidden directory, except below the `shared` directories.
    """

    def __init__(
        self, data_dir: Path, hidden: Iterable[str] = (), shared: Iterable[str] = ()
    ) -> None:
        self._pods = data_dir / "pods"
        self._hidden = [Path(path) for path in hidden]
        self._shared = [Path(path) for path in shared]

    def prepare(self, pod: Pod, context: PodContext) -> dict[str, str]:
        """Make every volume of the pod; returns their directories by name."""
        return {volume.name: self._prepare(volume, pod, context) for volume in pod.spec.volumes}

    def refresh(self, pod: Pod, context: PodContext) -> None:
        """Update volumes to the current objects; files of a deleted object stay."""
        for volume in pod.spec.volumes:
            folder = self._folder(volume, pod)
            with contextlib.suppress(MissingReference):
                files = volume_files(volume, pod, context)
                if files is not None and folder.is_dir():
                    replace_files(folder, files)

    def own(self, pod: Pod) -> dict[str, str]:
        """The directories of volumes in the pod's folder, by name."""
        return {volume.name: str(self._folder(volume, pod)) for volume in pod.spec.volumes}

    def directory(self, volume: Volume, pod: Pod, claims: Mapping[str, HostPath]) -> str:
        """The directory of one volume, which may not exist yet; MissingReference for a claim that
        is not bound, and for a path that is hidden from pods."""
        host_path = _host_path(volume, claims)
        if host_path is None:
            return str(self._folder(volume, pod))
        self.refuse_hidden(host_path.path)
        return host_path.path

    def _folder(self, volume: Volume, pod: Pod) -> Path:
        return self._pods / pod.metadata.uid / "volumes" / volume.name

    def _prepare(self, volume: Volume, pod: Pod, context: PodContext) -> str:
        host_path = _host_path(volume, context.claims)
        if host_path is not None:
            self.refuse_hidden(host_path.path)
            _check(host_path)
            return host_path.path
        folder = self._folder(volume, pod)
        if not folder.is_dir():  # a restarted container finds the files of its last attempt
            _make(folder, volume_files(volume, pod, context))
        return str(folder)

    def refuse_hidden(self, path: str) -> None:
        """A volume in a hidden directory would be empty: say so instead."""
        _refuse_nul(f"the hostPath {path}", path)
        if hidden := self._hidden_folder(path):
            message = f"hostPath {path} is in {hidden}, which is hidden from pods"
            raise MissingReference(message)

    def is_hidden(self, path: str) -> bool:
        """Whether pods see an empty directory in place of this path."""
        return self._hidden_folder(path) is not None

    def _hidden_folder(self, path: str) -> Path | None:
        real = Path(path).resolve()
        if any(shared.resolve() in real.parents for shared in self._shared):
            return None
        return next((row for row in self._hidden if real.is_relative_to(row.resolve())), None)


def _host_path(volume: Volume, claims: Mapping[str, HostPath]) -> HostPath | None:
    """The path on this machine that the volume shows; None for a directory of the pod."""
    if volume.persistent_volume_claim is None:
        return volume.host_path
    name = volume.persistent_volume_claim.claim_name
    if name not in claims:
        raise MissingReference(
            f'persistentvolumeclaim "{name}" is not bound to a volume of this node'
        )
    return claims[name]


def _make(folder: Path, files: list[VolumeFile] | None) -> None:
    draft = folder.with_name(f".{folder.name}")
    remove_tree(draft)  # of a daemon that was killed here
    draft.mkdir(parents=True)
    draft.chmod(0o777 if files is None else 0o755)
    if files is not None:
        replace_files(draft, files)
    draft.rename(folder)


def _check(source: HostPath) -> None:
    """Create or check the path according to its type."""
    path = Path(source.path)
    match source.type:
        case "DirectoryOrCreate":
            _make_open(path)
        case "FileOrCreate" if not path.exists():
            path.touch()
            path.chmod(0o644)
        case "Directory" if not path.is_dir():
            raise MissingReference(f"hostPath type check failed: {path} is not a directory")
        case "File" if not path.is_file():
            raise MissingReference(f"hostPath type check failed: {path} is not a file")
        case "" | "Directory" | "File" if not path.exists():
            raise MissingReference(f"hostPath {path} does not exist")


def _refuse_nul(name: str, path: str) -> None:
    """A path may come from a PersistentVolume or a variable, which may have the character."""
    if "\0" in path:
        raise MissingReference(f"{name} contains the NUL character".replace("\0", "\\0"))


def _make_open(path: Path) -> None:
    """Make a directory that other users may enter, like the kubelet: our umask makes private
    ones."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def _is_read_only(volume: Volume) -> bool:
    """Whether no program may write to it: files of API objects change only with the objects."""
    claim = volume.persistent_volume_claim
    objects = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(objects) or (claim is not None and claim.read_only)


def mounts(
    pod: Pod, container: Container, sources: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """The pod's volumes as one container mounts them."""
    read_only_volumes = {volume.name for volume in pod.spec.volumes if _is_read_only(volume)}
    result = []
    for mount in container.volume_mounts:
        if mount.name not in sources:
            raise MissingReference(f'volume "{mount.name}" not found')
        source = sources[mount.name]
        sub_path = mount.sub_path or env.expand(mount.sub_path_expr, variables)
        _refuse_nul(f'the subPath of volume "{mount.name}"', sub_path)
        read_only = mount.read_only or mount.name in read_only_volumes
        result.append(Mount(source, mount.mount_path, read_only, inside(sub_path)))
    return tuple(result)
