"""What a container may not be: names, ports, environment, mounts, probes.

Pure; called by `pods.py`. Worded as the real server words it.

Whom a pod and its containers may not run as, and what contradicts itself there.

Pure; called by `pods.py` and `containers.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names
from muster.local.apiserver.kinds.pod_resources import check_container_resources

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


_MOST = 2**31 - 1
_MOUNTS = ("Default", "Unmasked")
_IDS = ("runAsUser", "runAsGroup")


def check_pod_security(context: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the security context of a pod."""
    yield from _ids(context, ("fsGroup", *_IDS), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id(group, f"{path}.supplementalGroups[{i}]")


def check_container_security(context: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the security context of a container."""
    yield from _ids(context, _IDS, path)
    mount = context.get("procMount")
    if mount and mount not in _MOUNTS:
        yield api_errors.not_supported(f"{path}.procMount", mount, _MOUNTS)
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        told = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield api_errors.invalid_value(path, context, told)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        told = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield api_errors.invalid_value(path, context, told)


def _ids(context: Raw, fields: tuple[str, ...], path: str) -> Iterator[Cause]:
    for field in fields:
        if context.get(field) is not None:
            yield from _id(context[field], f"{path}.{field}")


def _id(number: int, path: str) -> Iterator[Cause]:
    if not 0 <= number <= _MOST:
        yield api_errors.invalid_value(path, number, f"must be between 0 and {_MOST}, inclusive")


PROTOCOLS = ("SCTP", "TCP", "UDP")
PORT_RANGE = "must be between 1 and 65535, inclusive"
_PULL = ("Always", "IfNotPresent", "Never")
_MESSAGES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_SECONDS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_NATURAL = "must be greater than or equal to 0"
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or"
    " `fileKeyRef`"
)
_ENV_NAME = (
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
_KEYED = re.compile(r"metadata\.(labels|annotations)\['.*'\]")


def check_container(container: Raw, path: str, volumes: Collection[str]) -> Iterator[Cause]:
    """What is wrong with one container of a pod that has these volumes."""
    name, image = str(container.get("name") or ""), str(container.get("image") or "")
    if not name:
        yield api_errors.required(f"{path}.name")
    else:
        yield from (
            api_errors.invalid_value(f"{path}.name", name, t) for t in names.check_label(name)
        )
    if not image:
        yield api_errors.required(f"{path}.image")
    elif image != image.strip():
        told = "must not have leading or trailing whitespace"
        yield api_errors.invalid_value(f"{path}.image", image, told)
    yield from one_of(container, "terminationMessagePolicy", _MESSAGES, path)
    yield from _ports(container.get("ports") or (), f"{path}.ports")
    for i, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{path}.env[{i}]")
    yield from _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from one_of(container, "imagePullPolicy", _PULL, path)
    yield from check_container_resources(container.get("resources") or {}, f"{path}.resources")
    yield from check_container_security(
        container.get("securityContext") or {}, f"{path}.securityContext"
    )
    for kind in _PROBES:
        if container.get(kind) is not None:
            yield from _probe(container[kind], f"{path}.{kind}", ready=kind == "readinessProbe")


def one_of(obj: Raw, field: str, allowed: tuple[str, ...], path: str) -> Iterator[Cause]:
    """The cause for a word that is not among those allowed."""
    value = obj.get(field)
    if value and value not in allowed:
        yield api_errors.not_supported(f"{path}.{field}", value, allowed)


def _ports(ports: Sequence[Raw], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, port in enumerate(ports):
        where, name = f"{path}[{i}]", str(port.get("name") or "")
        if name:
            wrong = _port_name(name)
            yield from (api_errors.invalid_value(f"{where}.name", name, told) for told in wrong)
            if not wrong and name in seen:
                yield api_errors.duplicate(f"{where}.name", name)
            seen.add(name)
        if not port.get("containerPort"):
            yield api_errors.required(f"{where}.containerPort")
        yield from _number(port.get("containerPort"), f"{where}.containerPort")
        yield from _number(port.get("hostPort"), f"{where}.hostPort")
        yield from one_of(port, "protocol", PROTOCOLS, where)


def _port_name(name: str) -> list[str]:
    wrong = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", name):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in name:
        wrong.append("must not contain consecutive hyphens")
    if name[0] == "-" or name[-1] == "-":
        wrong.append("must not begin or end with a hyphen")
    return wrong


def check_port(port: int | str, path: str) -> Iterator[Cause]:
    """A port by its number, or by the name a container gives it."""
    if isinstance(port, str):
        yield from (api_errors.invalid_value(path, port, told) for told in _port_name(port or "-"))
    elif not 1 <= port <= 65535:
        yield api_errors.invalid_value(path, port, PORT_RANGE)


def _number(port: Any, path: str) -> Iterator[Cause]:
    if port and not 1 <= port <= 65535:
        yield api_errors.invalid_value(path, port, PORT_RANGE)


def _variable(variable: Raw, path: str) -> Iterator[Cause]:
    name, source = str(variable.get("name") or ""), variable.get("valueFrom")
    if not name:
        yield api_errors.required(f"{path}.name")
    elif "=" in name or not (name.isascii() and name.isprintable()):
        yield api_errors.invalid_value(f"{path}.name", name, _ENV_NAME)
    if source is None:
        return
    where = f"{path}.valueFrom"
    chosen = [kind for kind in _SOURCES if source.get(kind) is not None]
    for kind in chosen:
        yield from _source(kind, source[kind], f"{where}.{kind}")
    if not chosen:
        yield api_errors.invalid_value(where, "", _ONE_SOURCE)
    elif variable.get("value"):
        yield api_errors.invalid_value(where, "", "may not be specified when `value` is not empty")
    elif len(chosen) > 1:
        yield api_errors.invalid_value(
            where, "", "may not have more than one field specified at a time"
        )


def _source(kind: str, source: Raw, path: str) -> Iterator[Cause]:
    if kind in ("configMapKeyRef", "secretKeyRef"):
        yield from (
            api_errors.required(f"{path}.{field}")
            for field in ("name", "key")
            if not source.get(field)
        )
    elif kind == "fieldRef":
        field = str(source.get("fieldPath") or "")
        if not field:
            yield api_errors.required(f"{path}.fieldPath")
        elif field in _FILE_FIELDS:
            yield api_errors.not_supported(f"{path}.fieldPath", field, _ENV_FIELDS)
        elif field not in _ENV_FIELDS and not _KEYED.fullmatch(field):
            told = f"error converting fieldPath: field label not supported: {field}"
            yield api_errors.invalid_value(f"{path}.fieldPath", field, told)


def _mounts(mounts: Sequence[Raw], path: str, volumes: Collection[str]) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, mount in enumerate(mounts):
        where, name = f"{path}[{i}]", str(mount.get("name") or "")
        if not name:
            yield api_errors.required(f"{where}.name")
        if name not in volumes:
            yield api_errors.not_found_field(f"{where}.name", name)
        place = str(mount.get("mountPath") or "")
        if not place:
            yield api_errors.required(f"{where}.mountPath")
        elif place in seen:
            yield api_errors.invalid_value(f"{where}.mountPath", place, "must be unique")
        seen.add(place)
        yield from _part(mount, path, where)


def _part(mount: Raw, path: str, where: str) -> Iterator[Cause]:
    """A part of a volume must lie in it. The real server does not say which mount it means."""
    if mount.get("subPath") and mount.get("subPathExpr"):
        told = "subPathExpr and subPath are mutually exclusive"
        yield api_errors.invalid_value(f"{where}.subPathExpr", mount["subPathExpr"], told)
    for field in ("subPath", "subPathExpr"):
        yield from check_inside(str(mount.get(field) or ""), f"{path}.{field}")


def check_inside(file: str, path: str) -> Iterator[Cause]:
    """A path that must not lead out of where it begins."""
    if file.startswith("/"):
        yield api_errors.invalid_value(path, file, "must be a relative path")
    if ".." in file.split("/"):
        yield api_errors.invalid_value(path, file, "must not contain '..'")


def _probe(probe: Raw, path: str, *, ready: bool) -> Iterator[Cause]:
    chosen = [kind for kind in _HANDLERS if probe.get(kind) is not None]
    if not chosen:
        yield api_errors.required(path, "must specify a handler type")
    for i, kind in enumerate(chosen):
        if i:
            told = "may not specify more than 1 handler type"
            yield api_errors.forbidden_field(f"{path}.{kind}", told)
        else:
            yield from _handler(kind, probe[kind], f"{path}.{kind}")
    for field in _SECONDS:
        if (probe.get(field) or 0) < 0:
            yield api_errors.invalid_value(f"{path}.{field}", probe[field], _NATURAL)
    if not ready and probe.get("successThreshold") != 1:
        yield api_errors.invalid_value(
            f"{path}.successThreshold", probe["successThreshold"], "must be 1"
        )


def _handler(kind: str, handler: Raw, path: str) -> Iterator[Cause]:
    if kind == "exec":
        if not handler.get("command"):
            yield api_errors.required(f"{path}.command")
        return
    yield from check_port(handler.get("port", 0), f"{path}.port")
    yield from one_of(handler, "scheme", ("HTTP", "HTTPS"), path)
