"""The files of volumes that are made of API objects and pod fields: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.errors import MissingReference
from muster.local.node import env
from muster.local.node.volumes.atomic_writer import VolumeFile
from muster.local.node.volumes.volume_sources import unsupported_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.node.env import PodContext
    from muster.local.node.pod import Pod
    from muster.local.node.volumes.volume_sources import (
        ConfigMapFiles,
        DownwardFiles,
        ProjectedFiles,
        SecretFiles,
        UnsupportedProjection,
        UnsupportedVolume,
        Volume,
    )


def volume_files(volume: Volume, pod: Pod, context: PodContext) -> list[VolumeFile] | None:
    """The files of the volume; None if it is a directory of another kind."""
    _reject_unsupported(volume.name, volume)
    if volume.config_map is not None:
        return _config_map(volume.config_map, volume.config_map.default_mode, context)
    if volume.secret is not None:
        return _secret(volume.secret, volume.secret.default_mode, context)
    if volume.downward_api is not None:
        return _downward(volume.downward_api, volume.downward_api.default_mode, pod, context)
    if volume.projected is not None:
        for part in volume.projected.sources:
            _reject_unsupported(volume.name, part)
        return _projected(volume.projected, pod, context)
    return None


def _reject_unsupported(name: str, source: UnsupportedVolume | UnsupportedProjection) -> None:
    kind = unsupported_kind(source)
    if kind:
        raise MissingReference(f"volume {name}: {kind} is not supported on the local node")


def _config_map(source: ConfigMapFiles, mode: int, context: PodContext) -> list[VolumeFile]:
    if source.name not in context.config_maps and not source.optional:
        raise MissingReference(f'configmap "{source.name}" not found')
    texts = context.config_maps.get(source.name, {})
    data = {key: text.encode() for key, text in texts.items()}
    binary = context.binaries.get(source.name, {})
    data |= {key: env.decoded(text) for key, text in binary.items()}
    return _selected(data, source, mode, f'configmap "{source.name}"')


def _secret(source: SecretFiles, mode: int, context: PodContext) -> list[VolumeFile]:
    name = source.secret_name or source.name
    if name not in context.secrets and not source.optional:
        raise MissingReference(f'secret "{name}" not found')
    data = {key: env.decoded(text) for key, text in context.secrets.get(name, {}).items()}
    return _selected(data, source, mode, f'secret "{name}"')


def _selected(
    data: Mapping[str, bytes], source: ConfigMapFiles | SecretFiles, mode: int, owner: str
) -> list[VolumeFile]:
    """The files of the selected keys; of all keys if none is selected."""
    keys = [(i.key, i.path, i.mode) for i in source.items] or [(key, key, None) for key in data]
    for key, _, _ in keys:
        if key not in data and not source.optional:
            raise MissingReference(f"couldn't find key {key} in {owner}")
    return [
        VolumeFile(path, data[key], mode if file_mode is None else file_mode)
        for key, path, file_mode in keys
        if key in data
    ]


def _downward(
    source: DownwardFiles, default_mode: int, pod: Pod, context: PodContext
) -> list[VolumeFile]:
    files = []
    for item in source.items:
        if item.field_ref is not None:
            text = env.field_value(pod, item.field_ref, context)
        elif item.resource_field_ref is not None:
            text = env.resource_value(pod, pod.spec.containers[0], item.resource_field_ref, context)
        else:
            continue
        mode = default_mode if item.mode is None else item.mode
        files.append(VolumeFile(item.path, text.encode(), mode))
    return files


def _projected(source: ProjectedFiles, pod: Pod, context: PodContext) -> list[VolumeFile]:
    files: list[VolumeFile] = []
    mode = source.default_mode
    for part in source.sources:
        if part.config_map is not None:
            files += _config_map(part.config_map, mode, context)
        if part.secret is not None:
            files += _secret(part.secret, mode, context)
        if part.downward_api is not None:
            files += _downward(part.downward_api, mode, pod, context)
    return files
