"""A container's environment and command line: pure.

Raises `MissingReference` for an object that does not exist; the pod waits with this message.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.api import quantity
from muster.errors import MissingReference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.node.pod import Container, EnvSource, KeyRef, Pod
    from muster.local.node.volumes.volume_sources import FieldRef, HostPath, ResourceRef

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


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

    def config_value(self, ref: KeyRef) -> str | None:
        return _value("configmap", self.config_maps, ref)

    def secret_value(self, ref: KeyRef) -> str | None:
        value = _value("secret", self.secrets, ref)
        return None if value is None else decoded(value).decode(errors="replace")


def _value(kind: str, store: Mapping[str, Mapping[str, str]], ref: KeyRef) -> str | None:
    if ref.name not in store:
        if ref.optional:
            return None
        raise MissingReference(f'{kind} "{ref.name}" not found')
    if ref.key not in store[ref.name] and not ref.optional:
        raise MissingReference(f'couldn\'t find key {ref.key} in {kind} "{ref.name}"')
    return store[ref.name].get(ref.key)


def decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise MissingReference(f"a secret's value is not base64: {error}") from error


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace `$(NAME)` where NAME is known; `$$` becomes `$`, so `$$(NAME)` becomes `$(NAME)`."""

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
        env |= {
            source.prefix + name: value
            for name, value in _all_keys(source.config_map_ref, source.secret_ref, context).items()
            if _NAME.fullmatch(source.prefix + name)
        }
    own: dict[str, str] = {}
    for variable in container.env:
        if variable.value_from is None:
            value: str | None = expand(variable.value, env | own)
        else:
            value = _from(pod, container, variable.value_from, context)
        if value is not None:
            own[variable.name] = value
    return env | own


def _all_keys(config: KeyRef | None, secret: KeyRef | None, context: PodContext) -> dict[str, str]:
    if config is not None:
        if config.name not in context.config_maps and not config.optional:
            raise MissingReference(f'configmap "{config.name}" not found')
        return dict(context.config_maps.get(config.name, {}))
    if secret is not None:
        if secret.name not in context.secrets and not secret.optional:
            raise MissingReference(f'secret "{secret.name}" not found')
        values = context.secrets.get(secret.name, {})
        return {name: decoded(text).decode(errors="replace") for name, text in values.items()}
    return {}


def _from(pod: Pod, container: Container, source: EnvSource, context: PodContext) -> str | None:
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, context)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, context)
    if source.config_map_key_ref is not None:
        return context.config_value(source.config_map_key_ref)
    if source.secret_key_ref is not None:
        return context.secret_value(source.secret_key_ref)
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


_ESCAPES = {
    ord(char): f"\\{letter}" for char, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)
}


def _escaped(text: str) -> str:
    """Escaped as by the kubelet (Go's quoting): programs parse these files."""
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
    unit = quantity.parse_milli(ref.divisor) or 1000
    return str(-(-quantity.parse_milli(amount) // unit))


def command_line(container: Container, env: Mapping[str, str]) -> list[str]:
    """The program and its arguments. There is no image that could provide the command."""
    words = (*container.command, *container.args)
    if not words:
        raise MissingReference(
            "no command: there is no image to take one from, so command or args must say"
        )
    return [expand(word, env) for word in words]
