"""A pod's volumes as directories and files on the host, at the places `rootfs` binds from.

Called by the starter: `prepare` before a container starts, `refresh` when an object that a volume
is made of has changed. What a volume contains is decided purely (`contents`) and written below the
pod's own folder; a volume is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import posixpath
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from muster.api import quantity
from muster.errors import MissingReference
from muster.local.node import env
from muster.local.node.runtime.rootfs import Mount
from muster.local.node.volumes import volume_sources
from muster.local.node.volumes.atomic_writer import VolumeFile, replace_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.node.env import PodContext
    from muster.local.node.pod import (
        ConfigMapFiles,
        Container,
        DownwardFiles,
        HostPath,
        Pod,
        ProjectedFiles,
        SecretFiles,
        Volume,
    )
    from muster.local.node.volumes.volume_sources import UnsupportedProjection, UnsupportedVolume


def in_memory(pod: Pod) -> dict[str, str]:
    """The volumes that are file systems in memory, with their mount options."""
    options = {}
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
            limit = volume.empty_dir.size_limit
            size = f",size={quantity.parse_whole(limit)}" if limit else ""
            options[volume.name] = f"mode=1777{size}"
    return options


def contents(volume: Volume, pod: Pod, around: PodContext) -> list[VolumeFile] | None:
    """The files of a volume that is made of objects; None for every other kind of ours."""
    _refuse_foreign(volume.name, volume)
    if volume.config_map is not None:
        return _config_map(volume.config_map, volume.config_map.default_mode, around)
    if volume.secret is not None:
        return _secret(volume.secret, volume.secret.default_mode, around)
    if volume.downward_api is not None:
        return _downward(volume.downward_api, volume.downward_api.default_mode, pod, around)
    if volume.projected is not None:
        for part in volume.projected.sources:
            _refuse_foreign(volume.name, part)
        return _projected(volume.projected, pod, around)
    return None


def _refuse_foreign(name: str, source: UnsupportedVolume | UnsupportedProjection) -> None:
    kind = volume_sources.unsupported_kind(source)
    if kind:
        raise MissingReference(f"volume {name}: {kind} is not supported on the local node")


def _config_map(source: ConfigMapFiles, mode: int, around: PodContext) -> list[VolumeFile]:
    if source.name not in around.config_maps and not source.optional:
        raise MissingReference(f'configmap "{source.name}" not found')
    found = around.config_maps.get(source.name, {})
    data = {key: text.encode() for key, text in found.items()}
    binary = around.binaries.get(source.name, {})
    data |= {key: env.decoded(text) for key, text in binary.items()}
    return _chosen(data, source, mode, f'configmap "{source.name}"')


def _secret(source: SecretFiles, mode: int, around: PodContext) -> list[VolumeFile]:
    name = source.secret_name or source.name
    if name not in around.secrets and not source.optional:
        raise MissingReference(f'secret "{name}" not found')
    data = {key: env.decoded(text) for key, text in around.secrets.get(name, {}).items()}
    return _chosen(data, source, mode, f'secret "{name}"')


def _chosen(
    data: Mapping[str, bytes], source: ConfigMapFiles | SecretFiles, mode: int, what: str
) -> list[VolumeFile]:
    """The files of the keys that are asked for; of all if none is."""
    wanted = [(i.key, i.path, i.mode) for i in source.items] or [(key, key, None) for key in data]
    for key, _, _ in wanted:
        if key not in data and not source.optional:
            raise MissingReference(f"couldn't find key {key} in {what}")
    return [
        VolumeFile(path, data[key], mode if own is None else own)
        for key, path, own in wanted
        if key in data
    ]


def _downward(
    source: DownwardFiles, default_mode: int, pod: Pod, around: PodContext
) -> list[VolumeFile]:
    files = []
    for item in source.items:
        if item.field_ref is not None:
            text = env.field_value(pod, item.field_ref, around)
        elif item.resource_field_ref is not None:
            text = env.resource_value(pod, pod.spec.containers[0], item.resource_field_ref, around)
        else:
            continue
        mode = default_mode if item.mode is None else item.mode
        files.append(VolumeFile(item.path, text.encode(), mode))
    return files


def _projected(source: ProjectedFiles, pod: Pod, around: PodContext) -> list[VolumeFile]:
    files: list[VolumeFile] = []
    mode = source.default_mode
    for part in source.sources:
        if part.config_map is not None:
            files += _config_map(part.config_map, mode, around)
        if part.secret is not None:
            files += _secret(part.secret, mode, around)
        if part.downward_api is not None:
            files += _downward(part.downward_api, mode, pod, around)
    return files


class VolumeDirectories:
    """Where volumes live: below the pod, or where the machine has them."""

    def __init__(self, data_dir: Path) -> None:
        self._pods = data_dir / "pods"

    def prepare(self, pod: Pod, around: PodContext) -> dict[str, str]:
        """Make every volume of the pod; returns its name and where it is on the host."""
        return {volume.name: self._one(volume, pod, around) for volume in pod.spec.volumes}

    def refresh(self, pod: Pod, around: PodContext) -> None:
        """Make volumes show their objects as they are now; what is gone is shown as it was."""
        for volume in pod.spec.volumes:
            folder = self._place(volume, pod)
            with contextlib.suppress(MissingReference):
                files = contents(volume, pod, around)
                if files is not None and folder.is_dir():
                    replace_files(folder, files)

    def places(self, pod: Pod) -> dict[str, str]:
        """Where the pod's own volumes are, once it was prepared."""
        return {volume.name: str(self._place(volume, pod)) for volume in pod.spec.volumes}

    def _place(self, volume: Volume, pod: Pod) -> Path:
        return self._pods / pod.metadata.uid / "volumes" / volume.name

    def _one(self, volume: Volume, pod: Pod, around: PodContext) -> str:
        outside = _outside(volume, around)
        if outside is not None:
            _check(outside)
            return outside.path
        folder = self._place(volume, pod)
        if not folder.is_dir():
            _make(folder, contents(volume, pod, around))
        return str(folder)


def _outside(volume: Volume, around: PodContext) -> HostPath | None:
    """What of the machine the volume is, if it is not the pod's own."""
    if volume.persistent_volume_claim is None:
        return volume.host_path
    name = volume.persistent_volume_claim.claim_name
    if name not in around.claims:
        raise MissingReference(
            f'persistentvolumeclaim "{name}" is not bound to a volume of this node'
        )
    return around.claims[name]


def _make(folder: Path, files: list[VolumeFile] | None) -> None:
    draft = folder.with_name(f".{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    draft.chmod(0o777 if files is None else 0o755)
    if files is not None:
        replace_files(draft, files)
    draft.rename(folder)


def _check(source: HostPath) -> None:
    """Make or check the path as its type says."""
    path = Path(source.path)
    match source.type:
        case "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        case "FileOrCreate":
            path.touch()
        case "Directory" if not path.is_dir():
            raise MissingReference(f"hostPath type check failed: {path} is not a directory")
        case "File" if not path.is_file():
            raise MissingReference(f"hostPath type check failed: {path} is not a file")
        case "" | "Directory" | "File" if not path.exists():
            raise MissingReference(f"hostPath {path} does not exist")


def _only_read(volume: Volume) -> bool:
    """Volumes made of objects are as the objects say, whatever a program would write there."""
    claim = volume.persistent_volume_claim
    objects = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(objects) or (claim is not None and claim.read_only)


def mounts(
    pod: Pod, container: Container, sources: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """What one container sees of the pod's volumes, and where."""
    only_read = {volume.name for volume in pod.spec.volumes if _only_read(volume)}
    memory = in_memory(pod)
    found = []
    for mount in container.volume_mounts:
        if mount.name not in sources:
            raise MissingReference(f'volume "{mount.name}" not found')
        source = sources[mount.name]
        below = mount.sub_path or env.expand(mount.sub_path_expr, variables)
        if below:
            source = posixpath.join(source, posixpath.normpath(f"/{below}").lstrip("/"))
            if not Path(source).exists():
                Path(source).mkdir(parents=True)
        read_only = mount.read_only or mount.name in only_read
        make = bool(below) and mount.name in memory
        found.append(Mount(source, mount.mount_path, read_only, make))
    return tuple(found)
