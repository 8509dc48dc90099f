"""The spec of a pod, in a pod or in a template: defaults, checks, volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import MAX_SECONDS
from localkube.apiserver import codec
from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    duplicate,
    forbidden_field,
    required,
)
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods import ephemeral_containers, pod_containers, pod_scheduling
from localkube.apiserver.kinds.pods.pod_resources import check_pod_resources, is_negative

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


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
_NAME_RULES = {
    "serviceAccountName": names.check_subdomain,
    "nodeName": names.check_subdomain,
    "hostname": names.check_plain_label,
    "subdomain": names.check_plain_label,
}


# -- defaults ------------------------------------------------------------------------------------


def complete_spec(spec: Raw) -> None:
    """Fill in the defaults of the spec of a pod or of a template, in place."""
    fields.fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    # `serviceAccount` is the old name of the field; objects have both.
    if spec.get("serviceAccountName") is None and spec.get("serviceAccount") is not None:
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    fields_of_containers = ("containers", "initContainers", "ephemeralContainers")
    for container in (c for field in fields_of_containers for c in spec.get(field) or ()):
        pod_containers.complete_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        _complete_volume(volume)


def _complete_volume(volume: Raw) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        fields.fill_optional(volume, kind, defaultMode=0o644)
    for source in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            pod_containers.complete_reference(item)
        fields.fill_optional(source, "serviceAccountToken", expirationSeconds=fields.TOKEN_SECONDS)
    fields.fill_optional(volume, "hostPath", type="")
    if not any(key for key in volume if key != "name"):
        volume["emptyDir"] = {}  # a volume without a source is an empty folder


# -- checks --------------------------------------------------------------------------------------


def check_pod_spec(spec: Raw, path: str) -> Causes:
    """The causes for an invalid spec."""
    yield from fields.check_no_nul(spec, path)
    volumes: set[str] = set()
    for where, volume in fields.each(spec, path, "volumes"):
        yield from _check_volume(volume, where, volumes)
    yield from fields.check_required(spec, path, "containers")
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for where, container in fields.each(spec, path, field):
            yield from pod_containers.check_container(container, where, volumes)
            name = str(container.get("name") or "")
            if name and name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
    if spec.get("ephemeralContainers"):
        yield from ephemeral_containers.check_containers(spec, path, volumes)
    yield from check_pod_resources(spec.get("resources") or {}, f"{path}.resources")
    yield from fields.one_of(spec, "restartPolicy", _RESTART_POLICIES, path)
    security = spec.get("securityContext") or {}
    yield from pod_containers.check_pod_security(security, f"{path}.securityContext")
    yield from fields.one_of(spec, "dnsPolicy", _DNS_POLICIES, path)
    yield from names.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from pod_scheduling.check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from pod_scheduling.check_gates(spec, path)
    for field, rule in _NAME_RULES.items():
        if spec.get(field):
            yield from fields.check_name(spec, path, rule, field)
    deadline = spec.get("activeDeadlineSeconds")
    yield from fields.check_range(deadline, 1, MAX_SECONDS, f"{path}.activeDeadlineSeconds")
    yield from fields.check_at_most(spec, "terminationGracePeriodSeconds", MAX_SECONDS, path)
    for where, toleration in fields.each(spec, path, "tolerations"):
        yield from pod_scheduling.check_toleration(toleration, where)


def _check_volume(volume: Raw, path: str, names_used: set[str]) -> Causes:
    sources = sorted(kind for kind in volume if kind != "name" and volume[kind] is not None)
    for kind in sources[1:]:
        yield forbidden_field(f"{path}.{kind}", "may not specify more than 1 volume type")
    for kind in sources[:1]:
        field = _REQUIRED.get(kind)
        if field and not codec.at(volume, f"{kind}.{field}"):
            yield required(f"{path}.{kind}.{field}")
        if kind == "hostPath":
            yield from fields.one_of(volume[kind], "type", _HOST_PATH_TYPES, f"{path}.{kind}")
        if kind == "projected":
            yield from _check_projected(volume[kind], f"{path}.{kind}")
        if kind == "emptyDir" and is_negative(volume[kind].get("sizeLimit")):
            detail = "SizeLimit field must be a valid resource quantity"
            yield forbidden_field(f"{path}.{kind}.sizeLimit", detail)
    yield from _check_files(volume, path)
    problems = list(fields.check_name(volume, path, names.check_label))
    yield from problems
    name = str(volume.get("name") or "")
    if name in names_used:
        yield duplicate(f"{path}.name", name)
    if not problems:
        names_used.add(name)


def _check_projected(projected: Raw, path: str) -> Causes:
    for where, source in fields.each(projected, path, "sources"):
        yield from _check_files(source, where)
        token = source.get("serviceAccountToken")
        if token is not None:
            yield from _check_token(token, path, f"{where}.serviceAccountToken")


def _check_files(volume: Raw, path: str) -> Causes:
    """The files that a volume, or a source of a projected one, names itself."""
    for kind in ("secret", "configMap"):
        for where, item in fields.each(volume.get(kind) or {}, f"{path}.{kind}", "items"):
            for field in ("key", "path"):
                yield from fields.check_required(item, where, field)
            yield from fields.check_file_path(str(item.get("path") or ""), f"{where}.path")
    # The real server does not say which item it is about.
    where = f"{path}.downwardAPI"
    for _, item in fields.each(volume.get("downwardAPI") or {}, where, "items"):
        yield from fields.check_required(item, where, "path")
        yield from fields.check_file_path(str(item.get("path") or ""), f"{where}.path")


def _check_token(token: Raw, path: str, where: str) -> Causes:
    """A token in a file. The real server does not say which source has the wrong path."""
    seconds = token.get("expirationSeconds", fields.TOKEN_SECONDS)
    yield from fields.check_token_lifetime(seconds, f"{where}.expirationSeconds")
    yield from fields.check_required(token, path, "path")
    yield from fields.check_relative_path(str(token.get("path") or ""), f"{path}.path")
