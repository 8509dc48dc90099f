"""A container's environment, and the files of its volumes: pure.

The values come from the pod's fields, ConfigMaps and Secrets. `MissingReference` is raised
for an object that does not exist; the container waits with this message.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects import quantity
from localkube.node.pod import MissingReference, unsupported_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localkube.node.pod import (
        ConfigMapFiles,
        Container,
        DownwardFiles,
        EnvSource,
        FieldRef,
        FileSource,
        HostPath,
        KeyRef,
        ObjectRef,
        Pod,
        ResourceRef,
        SecretFiles,
        Volume,
    )

# `$$`, or `$(NAME)`.
_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_ESCAPES = {
    ord(char): f"\\{letter}" for char, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)
}


@dataclass(frozen=True)
class PodContext:
    """The objects and addresses that a pod's fields refer to."""

    pod_ip: str = ""
    host_ip: str = ""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    binaries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The ConfigMaps' binaryData, in base64; for volumes only."""
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Values in base64."""
    claims: Mapping[str, HostPath] = field(default_factory=dict)
    """The directories of bound claims on this machine."""
    node: Mapping[str, str | int | float] = field(default_factory=dict)
    """The node's allocatable resources, used for missing limits."""

    def config_map(self, ref: ObjectRef) -> Mapping[str, str]:
        """The data of a ConfigMap; empty if it is optional and missing."""
        return _data("configmap", self.config_maps, ref)

    def secret(self, ref: ObjectRef) -> Mapping[str, str]:
        """The data of a Secret, in base64; empty if it is optional and missing."""
        return _data("secret", self.secrets, ref)


def _data(kind: str, objects: Mapping[str, Mapping[str, str]], ref: ObjectRef) -> Mapping[str, str]:
    if ref.object_name not in objects and not ref.optional:
        raise MissingReference(f'{kind} "{ref.object_name}" not found')
    return objects.get(ref.object_name, {})


def _value(kind: str, data: Mapping[str, str], ref: KeyRef) -> str | None:
    if ref.key not in data and not ref.optional:
        raise MissingReference(f'couldn\'t find key {ref.key} in {kind} "{ref.name}"')
    return data.get(ref.key)


def decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise MissingReference(f"a value is not base64: {error}") from error


def _decoded_text(value: str) -> str:
    return decoded(value).decode(errors="replace")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace `$(NAME)` if NAME is known; `$$` becomes `$`, so `$$(NAME)` becomes `$(NAME)`."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        return known.get(match[2], match[0])

    return _REFERENCE.sub(replace, text)


def environment(
    pod: Pod, container: Container, context: PodContext, base: Mapping[str, str]
) -> dict[str, str]:
    """The container's variables: the base, then envFrom, then env."""
    env = dict(base)
    for source in container.env_from:
        values: Mapping[str, str] = {}
        if source.config_map_ref is not None:
            values = context.config_map(source.config_map_ref)
        elif source.secret_ref is not None:
            secret = context.secret(source.secret_ref)
            values = {name: _decoded_text(text) for name, text in secret.items()}
        prefixed = {source.prefix + name: value for name, value in values.items()}
        # As in Kubernetes, keys that cannot name a variable are left out.
        env |= {name: value for name, value in prefixed.items() if _NAME.fullmatch(name)}
    own: dict[str, str] = {}
    # In order: a variable may refer to the variables before it.
    for variable in container.env:
        if variable.value_from is None:
            value: str | None = expand(variable.value, env | own)
        else:
            value = _from(pod, container, variable.value_from, context)
        if value is not None:
            own[variable.name] = value
    return env | own


def _from(pod: Pod, container: Container, source: EnvSource, context: PodContext) -> str | None:
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, context)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, context)
    if source.config_map_key_ref is not None:
        ref = source.config_map_key_ref
        return _value("configmap", context.config_map(ref), ref)
    if source.secret_key_ref is not None:
        ref = source.secret_key_ref
        text = _value("secret", context.secret(ref), ref)
        return None if text is None else _decoded_text(text)
    return ""


def field_value(pod: Pod, ref: FieldRef, context: PodContext) -> str:
    """The downward API: a field of the pod as text."""
    meta = pod.metadata
    keyed = _KEYED.fullmatch(ref.field_path)
    if keyed:
        return (meta.labels if keyed[1] == "labels" else meta.annotations).get(keyed[2], "")
    fields = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _lines(meta.labels),
        "metadata.annotations": _lines(meta.annotations),
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.podIP": context.pod_ip,
        "status.podIPs": context.pod_ip,
        "status.hostIP": context.host_ip,
        "status.hostIPs": context.host_ip,
    }
    if ref.field_path not in fields:
        raise MissingReference(f"unsupported fieldPath: {ref.field_path}")
    return fields[ref.field_path]


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(values.items()))


def _escaped(text: str) -> str:
    """The text in Go's quoting, as the kubelet writes it: programs parse these files."""
    return "".join(char if char.isprintable() else _code(char) for char in text.translate(_ESCAPES))


def _code(char: str) -> str:
    number = ord(char)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def resource_value(pod: Pod, container: Container, ref: ResourceRef, context: PodContext) -> str:
    """A container's request or limit in units of the divisor, rounded up."""
    if ref.container_name:
        named = (c for c in pod.all_containers if c.name == ref.container_name)
        container = next(named, container)
    kind, _, resource = ref.resource.partition(".")
    table = container.resources.limits if kind == "limits" else container.resources.requests
    amount = table.get(resource, context.node.get(resource, 0) if kind == "limits" else 0)
    unit = quantity.parse_milli(ref.divisor) or 1000  # the divisor "0" means 1
    return str(-(-quantity.parse_milli(amount) // unit))


class VolumeFile(NamedTuple):
    path: str
    data: bytes
    mode: int


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
    data |= {key: decoded(text) for key, text in binary.items()}
    return _selected(data, source, mode, f'configmap "{source.name}"')


def _secret(source: SecretFiles, mode: int, context: PodContext) -> list[VolumeFile]:
    data = {key: decoded(text) for key, text in context.secret(source).items()}
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
            text = field_value(pod, item.field_ref, context)
        elif item.resource_field_ref is not None:  # it names the container it means
            text = resource_value(pod, pod.spec.containers[0], item.resource_field_ref, context)
        else:
            continue
        mode = default_mode if item.mode is None else item.mode
        files.append(VolumeFile(item.path, text.encode(), mode))
    return files
