"""The spec of a pod, in a pod or in a template: defaults, checks of volumes and of scheduling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import MAX_SECONDS
from localkube.apiserver import causes, codec
from localkube.apiserver.admission import names
from localkube.apiserver.kinds import field_rules, pod_containers
from localkube.apiserver.kinds.field_rules import check_operator, each, one_of
from localkube.apiserver.kinds.pod_resources import check_pod_resources, is_negative

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Cause, Causes


_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip
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
    field_rules.fill(
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
        field_rules.fill_optional(volume, kind, defaultMode=0o644)
    for source in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            pod_containers.complete_reference(item)
        field_rules.fill_optional(
            source, "serviceAccountToken", expirationSeconds=field_rules.TOKEN_SECONDS
        )
    field_rules.fill_optional(volume, "hostPath", type="")
    if not any(key for key in volume if key != "name"):
        volume["emptyDir"] = {}  # a volume without a source is an empty folder


# -- checks --------------------------------------------------------------------------------------


def check_pod_spec(spec: Raw, path: str) -> Causes:
    """The causes for an invalid spec."""
    yield from field_rules.check_no_nul(spec, path)
    volumes: set[str] = set()
    for where, volume in each(spec, path, "volumes"):
        yield from _check_volume(volume, where, volumes)
    yield from field_rules.check_required(spec, path, "containers")
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for where, container in each(spec, path, field):
            yield from pod_containers.check_container(container, where, volumes)
            name = str(container.get("name") or "")
            if name and name in seen:
                yield causes.duplicate(f"{where}.name", name)
            seen.add(name)
    if spec.get("ephemeralContainers"):
        yield from pod_containers.check_ephemeral(spec, path, volumes)
    yield from check_pod_resources(spec.get("resources") or {}, f"{path}.resources")
    yield from one_of(spec, "restartPolicy", _RESTART_POLICIES, path)
    security = spec.get("securityContext") or {}
    yield from pod_containers.check_pod_security(security, f"{path}.securityContext")
    yield from one_of(spec, "dnsPolicy", _DNS_POLICIES, path)
    yield from names.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _check_gates(spec, path)
    for field, rule in _NAME_RULES.items():
        if spec.get(field):
            yield from field_rules.check_name(spec, path, rule, field)
    deadline = spec.get("activeDeadlineSeconds")
    yield from field_rules.check_range(deadline, 1, MAX_SECONDS, f"{path}.activeDeadlineSeconds")
    yield from field_rules.check_grace(spec, path)
    for where, toleration in each(spec, path, "tolerations"):
        yield from _check_toleration(toleration, where)


def _check_volume(volume: Raw, path: str, names_used: set[str]) -> Causes:
    sources = sorted(kind for kind in volume if kind != "name" and volume[kind] is not None)
    for kind in sources[1:]:
        yield causes.forbidden(f"{path}.{kind}", "may not specify more than 1 volume type")
    for kind in sources[:1]:
        field = _REQUIRED.get(kind)
        if field and not codec.at(volume, f"{kind}.{field}"):
            yield causes.required(f"{path}.{kind}.{field}")
        if kind == "hostPath":
            yield from one_of(volume[kind], "type", _HOST_PATH_TYPES, f"{path}.{kind}")
        if kind == "projected":
            yield from _check_projected(volume[kind], f"{path}.{kind}")
        if kind == "emptyDir" and is_negative(volume[kind].get("sizeLimit")):
            detail = "SizeLimit field must be a valid resource quantity"
            yield causes.forbidden(f"{path}.{kind}.sizeLimit", detail)
    yield from _check_files(volume, path)
    problems = list(field_rules.check_name(volume, path, names.check_label))
    yield from problems
    name = str(volume.get("name") or "")
    if name in names_used:
        yield causes.duplicate(f"{path}.name", name)
    if not problems:
        names_used.add(name)


def _check_projected(projected: Raw, path: str) -> Causes:
    for where, source in each(projected, path, "sources"):
        yield from _check_files(source, where)
        token = source.get("serviceAccountToken")
        if token is not None:
            seconds = token.get("expirationSeconds", field_rules.TOKEN_SECONDS)
            field = f"{where}.serviceAccountToken.expirationSeconds"
            yield from field_rules.check_token_lifetime(seconds, field)
            # The real server does not say which source has the wrong path.
            yield from field_rules.check_required(token, path, "path")
            yield from field_rules.check_relative_path(str(token.get("path") or ""), f"{path}.path")


def _check_files(volume: Raw, path: str) -> Causes:
    """The files that a volume, or a source of a projected one, names itself."""
    for kind in ("secret", "configMap"):
        for where, item in each(volume.get(kind) or {}, f"{path}.{kind}", "items"):
            yield from field_rules.check_required(item, where, "key", "path")
            yield from field_rules.check_file_path(str(item.get("path") or ""), f"{where}.path")
    # The real server does not say which item it is about.
    where = f"{path}.downwardAPI"
    for _, item in each(volume.get("downwardAPI") or {}, where, "items"):
        yield from field_rules.check_required(item, where, "path")
        yield from field_rules.check_file_path(str(item.get("path") or ""), f"{where}.path")


# -- scheduling ----------------------------------------------------------------------------------

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OUTAGES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _check_affinity(affinity: Raw, path: str) -> Causes:
    """The causes for an invalid affinity."""
    yield from _check_nodes(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _check_pods(affinity.get(kind) or {}, f"{path}.{kind}")


def _check_nodes(affinity: Raw, path: str) -> Causes:
    node_selector = affinity.get(REQUIRED)
    if node_selector is not None:
        where = f"{path}.{REQUIRED}.nodeSelectorTerms"
        terms = node_selector.get("nodeSelectorTerms") or ()
        if not terms:
            yield causes.required(where, "must have at least one node selector term")
        for i, term in enumerate(terms):
            yield from _check_node_term(term, f"{where}[{i}]")
    for where, preferred in each(affinity, path, _PREFERRED):
        yield from _check_weight(preferred, where)
        yield from _check_node_term(preferred.get("preference") or {}, f"{where}.preference")


def _check_weight(preferred: Raw, path: str) -> Causes:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        yield causes.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_node_term(term: Raw, path: str) -> Causes:
    for where, requirement in each(term, path, "matchExpressions"):
        if requirement.get("operator") in ("Gt", "Lt"):
            if len(requirement.get("values") or ()) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield causes.required(f"{where}.values", detail)
        else:
            yield from check_operator(requirement, where)
        yield from _check_key(requirement.get("key") or "", f"{where}.key")


def _check_pods(affinity: Raw, path: str) -> Causes:
    for where, term in each(affinity, path, REQUIRED):
        yield from _check_pod_term(term, where)
    for where, preferred in each(affinity, path, _PREFERRED):
        yield from _check_weight(preferred, where)
        term = preferred.get("podAffinityTerm") or {}
        yield from _check_pod_term(term, f"{where}.podAffinityTerm")


def _check_pod_term(term: Raw, path: str) -> Causes:
    key = term.get("topologyKey") or ""
    if not key:
        yield causes.required(f"{path}.topologyKey", "can not be empty")
    yield from _check_key(key, f"{path}.topologyKey")


def _check_key(key: str, path: str) -> list[Cause]:
    return names.invalid_values(path, key, names.check_key(key))


def _check_gates(spec: Raw, path: str) -> Causes:
    """The causes for invalid scheduling gates."""
    seen: set[str] = set()
    for where, gate in each(spec, path, "schedulingGates"):
        name = str(gate.get("name") or "")
        yield from _check_key(name, where)
        if name in seen:
            yield causes.duplicate(where, name)
        seen.add(name)


def _check_toleration(toleration: Raw, path: str) -> Causes:
    """The causes for an invalid toleration."""
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if key:
        yield from _check_key(key, f"{path}.key")
    elif operator != "Exists":
        detail = (
            'operator must be Exists when `key` is empty, which means "match all values and all'
            ' keys"'
        )
        yield causes.invalid(f"{path}.operator", operator, detail)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield causes.invalid(f"{path}.effect", effect, detail)
    yield from one_of(toleration, "operator", ("Equal", "Exists"), path)
    if operator == "Exists" and value:
        detail = "value must be empty when `operator` is 'Exists'"
        yield causes.invalid(f"{path}.operator", value, detail)
    yield from one_of(toleration, "effect", _EFFECTS, path)


def tolerate_short_outages(spec: Raw) -> None:
    """Let a pod stay five minutes on a node that is not ready or cannot be reached.

    Most outages are shorter, and a restart elsewhere would cost more. A pod that tolerates such a
    taint in its own way is left alone.
    """
    tolerations = spec["tolerations"] = spec.get("tolerations") or []
    for taint in _OUTAGES:
        if not any(
            t.get("key") in (taint, None, "") and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        ):
            row = {"key": taint, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append(row | {"tolerationSeconds": 300})
