"""Containers of a pod: defaults and checks of ports, environment, mounts, probes and security.

`kubectl debug` adds ephemeral containers to a running pod, and nobody removes them. Only the
subresource `ephemeralcontainers` writes them; it ignores every other change of the pod.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localkube.apiserver import causes, codec
from localkube.apiserver.admission import names
from localkube.apiserver.kinds import field_rules
from localkube.apiserver.kinds.pod_resources import check_container_resources, containers_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes


_MAX_ID = 2**31 - 1
_MAX_SYSCTL = 253
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_IDS = ("runAsUser", "runAsGroup")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBE_NUMBERS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
    "failureThreshold",
)  # fmt: skip
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
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_FILE_FIELDS = ("spec.restartPolicy", "spec.schedulerName", "spec.hostNetwork", "status.phase")
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['.*'\]")


# -- defaults ------------------------------------------------------------------------------------


def complete_container(container: Raw, *, host_network: bool) -> None:
    """Fill in the defaults of a container, in place."""
    image = container.get("image")
    untagged = image is not None and ":" not in image.rpartition("/")[2]
    latest = image is not None and (untagged or image.endswith(":latest")) and "@" not in image
    field_rules.fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
    )
    for port in container.get("ports") or ():
        field_rules.fill(port, protocol="TCP")
        if host_network:
            field_rules.fill(port, hostPort=port.get("containerPort"))
    for variable in container.get("env") or ():
        complete_reference(variable.get("valueFrom") or {})
    for probe in (container[kind] for kind in _PROBES if container.get(kind) is not None):
        _complete_handler(probe)
        field_rules.fill_optional(probe, "grpc", service="")
        field_rules.fill_zeros(
            probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3
        )
    for hook in ("postStart", "preStop"):
        _complete_handler((container.get("lifecycle") or {}).get(hook) or {})


def complete_reference(source: Raw) -> None:
    """Fill in the defaults of a reference to a field or a resource of the pod itself."""
    field_rules.fill_optional(source, "fieldRef", apiVersion="v1")
    field_rules.fill_optional(source, "resourceFieldRef", divisor="0")


def _complete_handler(handler: Raw) -> None:
    field_rules.fill_optional(handler, "httpGet", path="/", scheme="HTTP")


# -- checks --------------------------------------------------------------------------------------


def check_pod_security(context: Raw, path: str) -> Causes:
    """The causes for an invalid security context of a pod."""
    yield from _check_ids(context, ("fsGroup", *_IDS), path)
    for where, group in field_rules.each(context, path, "supplementalGroups"):
        yield from field_rules.check_range(group, 0, _MAX_ID, where)
    seen: set[str] = set()
    for where, sysctl in field_rules.each(context, path, "sysctls"):
        name = str(sysctl.get("name") or "")
        if not name:
            yield causes.required(f"{where}.name")
        elif len(name) > _MAX_SYSCTL or not re.fullmatch(_SYSCTL, name):
            rule = f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL}$"
            yield causes.invalid(f"{where}.name", name, rule)
        elif name in seen:
            yield causes.duplicate(f"{where}.name", name)
        seen.add(name)


def _check_container_security(context: Raw, path: str) -> Causes:
    """The causes for an invalid security context of a container."""
    yield from _check_ids(context, _IDS, path)
    yield from field_rules.one_of(context, "procMount", ("Default", "Unmasked"), path)
    if context.get("allowPrivilegeEscalation") is not False:
        return
    detail = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        yield causes.invalid(path, context, f"{detail} `privileged` to true")
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        yield causes.invalid(path, context, f"{detail} `capabilities.Add` CAP_SYS_ADMIN")


def _check_ids(context: Raw, ids: tuple[str, ...], path: str) -> Causes:
    for field in ids:
        yield from field_rules.check_range(context.get(field), 0, _MAX_ID, f"{path}.{field}")


def check_container(container: Raw, path: str, volumes: Collection[str]) -> Causes:
    """The causes for an invalid container of a pod that has these volumes."""
    yield from field_rules.check_name(container, path, names.check_label)
    image = str(container.get("image") or "")
    yield from field_rules.check_required(container, path, "image")
    if image != image.strip():
        yield causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from field_rules.one_of(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path)
    yield from _check_ports(container, path)
    for where, variable in field_rules.each(container, path, "env"):
        yield from _check_variable(variable, where)
    yield from _check_mounts(container, path, volumes)
    yield from field_rules.one_of(container, "imagePullPolicy", _PULL_POLICIES, path)
    yield from check_container_resources(container.get("resources") or {}, f"{path}.resources")
    security = container.get("securityContext") or {}
    yield from _check_container_security(security, f"{path}.securityContext")
    for kind in _PROBES:
        if container.get(kind) is not None:
            yield from _check_probe(kind, container[kind], f"{path}.{kind}")


def _check_ports(container: Raw, path: str) -> Causes:
    seen: set[str] = set()
    for where, port in field_rules.each(container, path, "ports"):
        name = str(port.get("name") or "")
        if name:
            problems = field_rules.port_name_problems(name)
            yield from names.invalid_values(f"{where}.name", name, problems)
            if not problems and name in seen:
                yield causes.duplicate(f"{where}.name", name)
            seen.add(name)
        yield from field_rules.check_required(port, where, "containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field):
                yield from field_rules.check_port_number(port[field], f"{where}.{field}")
        yield from field_rules.one_of(port, "protocol", field_rules.PROTOCOLS, where)


def _check_variable(variable: Raw, path: str) -> Causes:
    name = str(variable.get("name") or "")
    yield from field_rules.check_required(variable, path, "name")
    if not (name.isascii() and name.isprintable()) or "=" in name:
        yield causes.invalid(f"{path}.name", name, _ENV_NAME_RULE)
    source = variable.get("valueFrom")
    if source is None:
        return
    where = f"{path}.valueFrom"
    sources = [kind for kind in _SOURCES if source.get(kind) is not None]
    for kind in sources:
        yield from _check_source(kind, source[kind], f"{where}.{kind}")
    if not sources:
        yield causes.invalid(where, "", _ONE_SOURCE_RULE)
    elif variable.get("value"):
        yield causes.invalid(where, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield causes.invalid(where, "", "may not have more than one field specified at a time")


def _check_source(kind: str, source: Raw, path: str) -> Causes:
    if kind in ("configMapKeyRef", "secretKeyRef"):
        yield from field_rules.check_required(source, path, "name", "key")
    elif kind == "fieldRef":
        field = str(source.get("fieldPath") or "")
        yield from field_rules.check_required(source, path, "fieldPath")
        if field in _FILE_FIELDS:
            yield causes.not_supported(f"{path}.fieldPath", field, _ENV_FIELDS)
        elif field and field not in _ENV_FIELDS and not _KEYED_FIELD.fullmatch(field):
            detail = f"error converting fieldPath: field label not supported: {field}"
            yield causes.invalid(f"{path}.fieldPath", field, detail)


def _check_mounts(container: Raw, path: str, volumes: Collection[str]) -> Causes:
    seen: set[str] = set()
    for where, mount in field_rules.each(container, path, "volumeMounts"):
        yield from field_rules.check_required(mount, where, "name")
        if (mount.get("name") or "") not in volumes:
            yield causes.not_found(f"{where}.name", mount.get("name") or "")
        yield from field_rules.check_required(mount, where, "mountPath")
        mount_path = str(mount.get("mountPath") or "")
        if mount_path in seen:
            yield causes.invalid(f"{where}.mountPath", mount_path, "must be unique")
        seen |= {mount_path} - {""}
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield causes.invalid(f"{where}.subPathExpr", mount["subPathExpr"], detail)
        # The real server does not say which mount has the wrong path.
        for field in ("subPath", "subPathExpr"):
            file = str(mount.get(field) or "")
            yield from field_rules.check_relative_path(file, f"{path}.volumeMounts.{field}")


def _check_probe(kind: str, probe: Raw, path: str) -> Causes:
    handlers = [handler for handler in _HANDLERS if probe.get(handler) is not None]
    if not handlers:
        yield causes.required(path, "must specify a handler type")
    for handler in handlers[:1]:
        yield from _check_handler(handler, probe[handler], f"{path}.{handler}")
    for handler in handlers[1:]:
        yield causes.forbidden(f"{path}.{handler}", "may not specify more than 1 handler type")
    yield from field_rules.check_not_negative(probe, *_PROBE_NUMBERS, path=path)
    yield from field_rules.check_grace(probe, path)
    # Only readiness can be lost and regained; the other probes act on the first success.
    if kind != "readinessProbe" and probe.get("successThreshold") != 1:
        yield causes.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _check_handler(kind: str, handler: Raw, path: str) -> Causes:
    if kind == "exec":
        yield from field_rules.check_required(handler, path, "command")
        return
    yield from field_rules.check_port(handler.get("port", 0), f"{path}.port")
    yield from field_rules.one_of(handler, "scheme", ("HTTP", "HTTPS"), path)


# -- ephemeral containers ------------------------------------------------------------------------

SUBRESOURCE = "ephemeralcontainers"
_FIELD = "ephemeralContainers"
_REFUSED = "cannot be set for an Ephemeral Container"
# A workload must not depend on them. Empty values are what the real server has for missing ones.
_FORBIDDEN = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def keep_all_but_ephemeral(new: Raw, old: Raw) -> None:
    """Undo, in place, changes to anything but ephemeral containers."""
    containers = new["spec"].get(_FIELD)
    new["spec"] = codec.copy(old["spec"])
    new["spec"].pop(_FIELD, None)
    if containers:
        new["spec"][_FIELD] = containers
    new["status"] = codec.copy(old.get("status") or {})
    meta = new["metadata"]
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        meta.pop(name, None)
        if name in old["metadata"]:
            meta[name] = codec.copy(old["metadata"][name])


def check_ephemeral(spec: Raw, path: str, volumes: Collection[str]) -> Causes:
    """The causes for invalid ephemeral containers."""
    others = {str(container.get("name") or "") for container in containers_of(spec)}
    seen = set(others)
    for where, container in field_rules.each(spec, path, _FIELD):
        yield from check_container(container, where, volumes)
        name = str(container.get("name") or "")
        if name in seen:
            yield causes.duplicate(f"{where}.name", name)
        seen.add(name)
        target = str(container.get("targetContainerName") or "")
        if target and target not in others:
            yield causes.not_found(f"{where}.targetContainerName", target)
        for field in _FORBIDDEN:
            if container.get(field):
                yield causes.forbidden(f"{where}.{field}", _REFUSED)
        for mount_path, mount in field_rules.each(container, where, "volumeMounts"):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield causes.forbidden(f"{mount_path}.{field}", _REFUSED)


def check_ephemeral_change(new: Raw, old: Raw) -> Causes:
    """The causes for ephemeral containers that a change removes or changes."""
    by_name = {container.get("name"): container for container in new["spec"].get(_FIELD) or ()}
    for before in old["spec"].get(_FIELD) or ():
        name = before.get("name")
        after = by_name.get(name)
        if after != before:
            verb = "removed" if after is None else "changed"
            detail = f'existing ephemeral containers "{name}" may not be {verb}\n'
            yield causes.forbidden(f"spec.{_FIELD}", detail)
