"""The spec of a pod, in a pod or in a template: defaults, checks, volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import codec
from muster.local.apiserver.admission import names
from muster.local.apiserver.api_errors import (
    Causes,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from muster.local.apiserver.kinds import pod_containers, pod_scheduling
from muster.local.apiserver.kinds.fields import check_relative_path, fill, maps_in, one_of
from muster.local.apiserver.kinds.pod_resources import check_pod_resources

if TYPE_CHECKING:
    from muster.api.meta import Raw


_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_REQUIRED = {
    "hostPath": "path",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
}
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_TOKEN_SECONDS, _MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 3600, 600, 2**32
_NAME_RULES = {
    "serviceAccountName": names.check_subdomain,
    "nodeName": names.check_subdomain,
    "hostname": names.check_plain_label,
    "subdomain": names.check_plain_label,
}


# -- defaults ------------------------------------------------------------------------------------


def complete_spec(spec: Raw) -> None:
    """Fill in the defaults of a pod's spec, or a template's, in place."""
    fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if spec.get("serviceAccountName") is None and spec.get("serviceAccount") is not None:
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in maps_in(spec.get("containers")) + maps_in(spec.get("initContainers")):
        pod_containers.complete_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in maps_in(spec.get("volumes")):
        _complete_volume(volume)


def _complete_volume(volume: Raw) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(kind), dict):
            fill(volume[kind], defaultMode=420)
    for source in [volume, *maps_in((volume.get("projected") or {}).get("sources"))]:
        for item in maps_in((source.get("downwardAPI") or {}).get("items")):
            pod_containers.complete_reference(item)
        if isinstance(source.get("serviceAccountToken"), dict):
            fill(source["serviceAccountToken"], expirationSeconds=_TOKEN_SECONDS)
    if isinstance(volume.get("hostPath"), dict):
        fill(volume["hostPath"], type="")
    if not any(key for key in volume if key != "name"):
        volume["emptyDir"] = {}


# -- checks --------------------------------------------------------------------------------------


def check_pod_spec(spec: Raw, path: str) -> Causes:
    """The causes for an invalid spec."""
    volumes: set[str] = set()
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from _check_volume(volume, f"{path}.volumes[{i}]", volumes)
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{i}]"
            yield from pod_containers.check_container(container, where, volumes)
            name = str(container.get("name") or "")
            if name and name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
    yield from check_pod_resources(spec.get("resources") or {}, f"{path}.resources")
    yield from one_of(spec, "restartPolicy", _RESTART_POLICIES, path)
    yield from pod_containers.check_pod_security(
        spec.get("securityContext") or {}, f"{path}.securityContext"
    )
    yield from one_of(spec, "dnsPolicy", _DNS_POLICIES, path)
    yield from names.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from pod_scheduling.check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from pod_scheduling.check_gates(spec.get("schedulingGates") or (), path)
    for field, problems in _NAME_RULES.items():
        if spec.get(field):
            yield from names.invalid_values(f"{path}.{field}", spec[field], problems(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, detail)
    yield from pod_scheduling.check_tolerations(spec.get("tolerations") or (), path)


def _check_volume(volume: Raw, path: str, names_used: set[str]) -> Causes:
    sources = sorted(kind for kind in volume if kind != "name" and volume[kind] is not None)
    for kind in sources[1:]:
        yield forbidden_field(f"{path}.{kind}", "may not specify more than 1 volume type")
    for kind in sources[:1]:
        field = _REQUIRED.get(kind)
        if field and not codec.at(volume, f"{kind}.{field}"):
            yield required(f"{path}.{kind}.{field}")
        if kind == "hostPath":
            yield from one_of(volume[kind], "type", _HOST_PATH_TYPES, f"{path}.{kind}")
        if kind == "projected":
            yield from _check_projected(volume[kind], f"{path}.{kind}")
    name = str(volume.get("name") or "")
    problems = names.check_label(name) if name else []
    if not name:
        yield required(f"{path}.name")
    yield from names.invalid_values(f"{path}.name", name, problems)
    if name in names_used:
        yield duplicate(f"{path}.name", name)
    if name and not problems:
        names_used.add(name)


def _check_projected(projected: Raw, path: str) -> Causes:
    for i, source in enumerate(projected.get("sources") or ()):
        token = source.get("serviceAccountToken")
        if token is not None:
            yield from _check_token(token, path, f"{path}.sources[{i}].serviceAccountToken")


def _check_token(token: Raw, path: str, where: str) -> Causes:
    """A token in a file. The real server does not say which source has the wrong path."""
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid_value(f"{where}.expirationSeconds", seconds, detail)
    if seconds is not None and seconds > _MAX_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid_value(f"{where}.expirationSeconds", seconds, detail)
    file = str(token.get("path") or "")
    if not file:
        yield required(f"{path}.path")
    yield from check_relative_path(file, f"{path}.path")
