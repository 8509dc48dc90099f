"""The files of volumes that are made of API objects and pod fields: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import MissingReference
from localkube.node import env
from localkube.node.volumes.atomic_writer import VolumeFile
from localkube.node.volumes.volume_sources import unsupported_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localkube.node.env import PodContext
    from localkube.node.pod import Pod
    from localkube.node.volumes.volume_sources import (
        ConfigMapFiles,
        DownwardFiles,
        FileSource,
        SecretFiles,
        Volume,
    )


def volume_files(volume: Volume, pod: Pod, context: PodContext) -> list[VolumeFile] | None:
    """The files of the volume; None if it is a directory of another kind.

    The tokens of a projected volume are not among them: `ServiceAccountTokens` writes them.
    """
    for source in volume.file_sources:
        kind = unsupported_kind(source)
        if kind:
            message = f"volume {volume.name}: {kind} is not supported on the local node"
            raise MissingReference(message)
    files = volume.projected or volume.config_map or volume.secret or volume.downward_api
    if files is None:
        return None
    mode = files.default_mode
    return [file for s in volume.file_sources for file in _files(s, mode, pod, context)]


def _files(source: FileSource, mode: int, pod: Pod, context: PodContext) -> list[VolumeFile]:
    files: list[VolumeFile] = []
    if source.config_map is not None:
        files += _config_map(source.config_map, mode, context)
    if source.secret is not None:
        files += _secret(source.secret, mode, context)
    if source.downward_api is not None:
        files += _downward(source.downward_api, mode, pod, context)
    return files


def _config_map(source: ConfigMapFiles, mode: int, context: PodContext) -> list[VolumeFile]:
    data = {key: text.encode() for key, text in context.config_map(source).items()}
    binary = context.binaries.get(source.name, {})
    data |= {key: env.decoded(text) for key, text in binary.items()}
    return _selected(data, source, mode, f'configmap "{source.name}"')


def _secret(source: SecretFiles, mode: int, context: PodContext) -> list[VolumeFile]:
    data = {key: env.decoded(text) for key, text in context.secret(source).items()}
    return _selected(data, source, mode, f'secret "{source.object_name}"')


def _selected(
    data: Mapping[str, bytes], source: ConfigMapFiles, mode: int, owner: str
) -> list[VolumeFile]:
    """The files of the selected keys; of all keys if none is selected."""
    items = [(item.key, item.path, item.mode) for item in source.items]
    keys = items or [(key, key, None) for key in data]
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
        elif item.resource_field_ref is not None:  # it names the container it means
            text = env.resource_value(pod, pod.spec.containers[0], item.resource_field_ref, context)
        else:
            continue
        mode = default_mode if item.mode is None else item.mode
        files.append(VolumeFile(item.path, text.encode(), mode))
    return files
