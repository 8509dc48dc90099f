"""Containers of a pod: defaults and checks of ports, environment, mounts, probes and security."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from muster.local.apiserver.admission import names
from muster.local.apiserver.api_errors import (
    Causes,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_field,
    not_supported,
    required,
)
from muster.local.apiserver.kinds import fields
from muster.local.apiserver.kinds.pod_resources import check_container_resources

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from muster.api.meta import Raw


_MAX_ID = 2**31 - 1
_PROC_MOUNTS = ("Default", "Unmasked")
_IDS = ("runAsUser", "runAsGroup")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBE_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE_RULE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or"
    " `fileKeyRef`"
)
_ENV_NAME_RULE = (
    "a valid environment variable name must consist only of printable ASCII characters other than"
    " '='"
)
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_FILE_FIELDS = ("spec.restartPolicy", "spec.schedulerName", "spec.hostNetwork", "status.phase")
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['.*'\]")


# -- defaults ------------------------------------------------------------------------------------


def complete_container(container: Raw, *, host_network: bool) -> None:
    """Fill in the defaults of a container, in place."""
    image = container.get("image")
    untagged = isinstance(image, str) and ":" not in image.rpartition("/")[2]
    latest = isinstance(image, str) and (untagged or image.endswith(":latest")) and "@" not in image
    fields.fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
    )
    for port in fields.maps_in(container.get("ports")):
        fields.fill(port, protocol="TCP")
        if host_network:
            fields.fill(port, hostPort=port.get("containerPort"))
    for variable in fields.maps_in(container.get("env")):
        complete_reference(variable.get("valueFrom"))
    for probe in _PROBES:
        if isinstance(container.get(probe), dict):
            _complete_probe(container[probe])
    for handler in (container.get("lifecycle") or {}).values():
        _complete_handler(handler)


def complete_reference(source: Any) -> None:
    """Fill in the defaults of a reference to a field or a resource of the pod itself."""
    if not isinstance(source, dict):
        return
    if isinstance(source.get("fieldRef"), dict):
        fields.fill(source["fieldRef"], apiVersion="v1")
    if isinstance(source.get("resourceFieldRef"), dict):
        fields.fill(source["resourceFieldRef"], divisor="0")


def _complete_probe(probe: Raw) -> None:
    _complete_handler(probe)
    if isinstance(probe.get("grpc"), dict):
        fields.fill(probe["grpc"], service="")
    fields.fill_zeros(probe, timeoutSeconds=1, periodSeconds=10)
    fields.fill_zeros(probe, successThreshold=1, failureThreshold=3)


def _complete_handler(handler: Any) -> None:
    if isinstance(handler, dict) and isinstance(handler.get("httpGet"), dict):
        fields.fill(handler["httpGet"], path="/", scheme="HTTP")


# -- checks --------------------------------------------------------------------------------------


def check_pod_security(context: Raw, path: str) -> Causes:
    """The causes for an invalid security context of a pod."""
    yield from _check_ids(context, ("fsGroup", *_IDS), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _check_id(group, f"{path}.supplementalGroups[{i}]")


def _check_container_security(context: Raw, path: str) -> Causes:
    """The causes for an invalid security context of a container."""
    yield from _check_ids(context, _IDS, path)
    mount = context.get("procMount")
    if mount and mount not in _PROC_MOUNTS:
        yield not_supported(f"{path}.procMount", mount, _PROC_MOUNTS)
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid_value(path, context, detail)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        detail = (
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        )
        yield invalid_value(path, context, detail)


def _check_ids(context: Raw, fields: tuple[str, ...], path: str) -> Causes:
    for field in fields:
        if context.get(field) is not None:
            yield from _check_id(context[field], f"{path}.{field}")


def _check_id(number: int, path: str) -> Causes:
    if not 0 <= number <= _MAX_ID:
        yield invalid_value(path, number, f"must be between 0 and {_MAX_ID}, inclusive")


def check_container(container: Raw, path: str, volumes: Collection[str]) -> Causes:
    """The causes for an invalid container of a pod that has these volumes."""
    name, image = str(container.get("name") or ""), str(container.get("image") or "")
    if not name:
        yield required(f"{path}.name")
    else:
        yield from names.invalid_values(f"{path}.name", name, names.check_label(name))
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from fields.one_of(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path)
    yield from _check_ports(container.get("ports") or (), f"{path}.ports")
    for i, variable in enumerate(container.get("env") or ()):
        yield from _check_variable(variable, f"{path}.env[{i}]")
    yield from _check_mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from fields.one_of(container, "imagePullPolicy", _PULL_POLICIES, path)
    yield from check_container_resources(container.get("resources") or {}, f"{path}.resources")
    yield from _check_container_security(
        container.get("securityContext") or {}, f"{path}.securityContext"
    )
    for kind in _PROBES:
        if container.get(kind) is not None:
            yield from _check_probe(
                container[kind], f"{path}.{kind}", ready=kind == "readinessProbe"
            )


def _check_ports(ports: Sequence[Raw], path: str) -> Causes:
    seen: set[str] = set()
    for i, port in enumerate(ports):
        where, name = f"{path}[{i}]", str(port.get("name") or "")
        if name:
            problems = fields.port_name_problems(name)
            yield from names.invalid_values(f"{where}.name", name, problems)
            if not problems and name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
        if not port.get("containerPort"):
            yield required(f"{where}.containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field):
                yield from fields.check_port_number(port[field], f"{where}.{field}")
        yield from fields.one_of(port, "protocol", fields.PROTOCOLS, where)


def _check_variable(variable: Raw, path: str) -> Causes:
    name, source = str(variable.get("name") or ""), variable.get("valueFrom")
    if not name:
        yield required(f"{path}.name")
    elif "=" in name or not (name.isascii() and name.isprintable()):
        yield invalid_value(f"{path}.name", name, _ENV_NAME_RULE)
    if source is None:
        return
    where = f"{path}.valueFrom"
    given = [kind for kind in _SOURCES if source.get(kind) is not None]
    for kind in given:
        yield from _check_source(kind, source[kind], f"{where}.{kind}")
    if not given:
        yield invalid_value(where, "", _ONE_SOURCE_RULE)
    elif variable.get("value"):
        yield invalid_value(where, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid_value(where, "", "may not have more than one field specified at a time")


def _check_source(kind: str, source: Raw, path: str) -> Causes:
    if kind in ("configMapKeyRef", "secretKeyRef"):
        yield from (
            required(f"{path}.{field}") for field in ("name", "key") if not source.get(field)
        )
    elif kind == "fieldRef":
        field = str(source.get("fieldPath") or "")
        if not field:
            yield required(f"{path}.fieldPath")
        elif field in _FILE_FIELDS:
            yield not_supported(f"{path}.fieldPath", field, _ENV_FIELDS)
        elif field not in _ENV_FIELDS and not _KEYED_FIELD.fullmatch(field):
            detail = f"error converting fieldPath: field label not supported: {field}"
            yield invalid_value(f"{path}.fieldPath", field, detail)


def _check_mounts(mounts: Sequence[Raw], path: str, volumes: Collection[str]) -> Causes:
    seen: set[str] = set()
    for i, mount in enumerate(mounts):
        where, name = f"{path}[{i}]", str(mount.get("name") or "")
        if not name:
            yield required(f"{where}.name")
        if name not in volumes:
            yield not_found_field(f"{where}.name", name)
        mount_path = str(mount.get("mountPath") or "")
        if not mount_path:
            yield required(f"{where}.mountPath")
        elif mount_path in seen:
            yield invalid_value(f"{where}.mountPath", mount_path, "must be unique")
        seen.add(mount_path)
        yield from _check_sub_path(mount, path, where)


def _check_sub_path(mount: Raw, path: str, where: str) -> Causes:
    """A part of a volume must lie in it. The real server does not say which mount it means."""
    if mount.get("subPath") and mount.get("subPathExpr"):
        detail = "subPathExpr and subPath are mutually exclusive"
        yield invalid_value(f"{where}.subPathExpr", mount["subPathExpr"], detail)
    for field in ("subPath", "subPathExpr"):
        yield from fields.check_relative_path(str(mount.get(field) or ""), f"{path}.{field}")


def _check_probe(probe: Raw, path: str, *, ready: bool) -> Causes:
    given = [kind for kind in _HANDLERS if probe.get(kind) is not None]
    if not given:
        yield required(path, "must specify a handler type")
    for i, kind in enumerate(given):
        if i:
            yield forbidden_field(f"{path}.{kind}", "may not specify more than 1 handler type")
        else:
            yield from _check_handler(kind, probe[kind], f"{path}.{kind}")
    for field in _PROBE_NUMBERS:
        if (probe.get(field) or 0) < 0:
            yield invalid_value(f"{path}.{field}", probe[field], fields.NOT_NEGATIVE)
    if not ready and probe.get("successThreshold") != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _check_handler(kind: str, handler: Raw, path: str) -> Causes:
    if kind == "exec":
        if not handler.get("command"):
            yield required(f"{path}.command")
        return
    yield from fields.check_port(handler.get("port", 0), f"{path}.port")
    yield from fields.one_of(handler, "scheme", ("HTTP", "HTTPS"), path)
