"""What a pod's spec may not be, in a pod or in a template.

Pure; called by `kinds.py`.

What the volumes of a pod may not be.

Pure; called by `pods.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.admission import names
from muster.local.apiserver.kinds import pod_containers, pod_scheduling
from muster.local.apiserver.kinds import pod_containers as security
from muster.local.apiserver.kinds.pod_containers import check_inside, one_of
from muster.local.apiserver.kinds.pod_resources import check_pod_resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


_HOST_PATHS = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_NEEDED = {
    "hostPath": "path",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
}
_SHORTEST, _LONGEST = 600, 2**32


def check_volume(volume: Raw, path: str, taken: set[str]) -> Iterator[Cause]:
    """What is wrong with a volume of a pod; its name is then taken."""
    sources = sorted(kind for kind in volume if kind != "name" and volume[kind] is not None)
    for kind in sources[1:]:
        told = "may not specify more than 1 volume type"
        yield api_errors.forbidden_field(f"{path}.{kind}", told)
    for kind in sources[:1]:
        needed = _NEEDED.get(kind)
        if needed and not objects.at(volume, f"{kind}.{needed}"):
            yield api_errors.required(f"{path}.{kind}.{needed}")
        if kind == "hostPath":
            yield from one_of(volume[kind], "type", _HOST_PATHS, f"{path}.{kind}")
        if kind == "projected":
            yield from _projected(volume[kind], f"{path}.{kind}")
    name = str(volume.get("name") or "")
    wrong = names.check_label(name) if name else []
    if not name:
        yield api_errors.required(f"{path}.name")
    yield from (api_errors.invalid_value(f"{path}.name", name, told) for told in wrong)
    if name in taken:
        yield api_errors.duplicate(f"{path}.name", name)
    if name and not wrong:
        taken.add(name)


def _projected(projected: Raw, path: str) -> Iterator[Cause]:
    for i, source in enumerate(projected.get("sources") or ()):
        token = source.get("serviceAccountToken")
        if token is not None:
            yield from _token(token, path, f"{path}.sources[{i}].serviceAccountToken")


def _token(token: Raw, path: str, where: str) -> Iterator[Cause]:
    """A token in a file. The real server does not say which source has the wrong path."""
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        told = "may not specify a duration less than 10 minutes"
        yield api_errors.invalid_value(f"{where}.expirationSeconds", seconds, told)
    if seconds is not None and seconds > _LONGEST:
        told = "may not specify a duration larger than 2^32 seconds"
        yield api_errors.invalid_value(f"{where}.expirationSeconds", seconds, told)
    file = str(token.get("path") or "")
    if not file:
        yield api_errors.required(f"{path}.path")
    yield from check_inside(file, f"{path}.path")


_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_pod_spec(spec: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the spec."""
    volumes: set[str] = set()
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from check_volume(volume, f"{path}.volumes[{i}]", volumes)
    if not spec.get("containers"):
        yield api_errors.required(f"{path}.containers")
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{i}]"
            yield from pod_containers.check_container(container, where, volumes)
            name = str(container.get("name") or "")
            if name and name in seen:
                yield api_errors.duplicate(f"{where}.name", name)
            seen.add(name)
    yield from check_pod_resources(spec.get("resources") or {}, f"{path}.resources")
    yield from one_of(spec, "restartPolicy", _RESTART, path)
    yield from security.check_pod_security(
        spec.get("securityContext") or {}, f"{path}.securityContext"
    )
    yield from one_of(spec, "dnsPolicy", _DNS, path)
    yield from names.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if spec.get("affinity"):
        yield from pod_scheduling.check_affinity(spec["affinity"], f"{path}.affinity")
    yield from _gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    yield from _named(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        told = "must be between 1 and 2147483647, inclusive"
        yield api_errors.invalid_value(f"{path}.activeDeadlineSeconds", deadline, told)
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{i}]")


def check_new(spec: Raw) -> Iterator[Cause]:
    """What is wrong with the spec of a pod that is about to be created."""
    if spec.get("ephemeralContainers"):
        yield api_errors.forbidden_field("spec.ephemeralContainers", "cannot be set on create")


def _named(spec: Raw, path: str) -> Iterator[Cause]:
    """Fields that name something else."""
    for field, wrong in (
        ("serviceAccountName", names.check_subdomain),
        ("nodeName", names.check_subdomain),
        ("hostname", names.check_plain_label),
        ("subdomain", names.check_plain_label),
    ):
        name = spec.get(field)
        if name:
            yield from (
                api_errors.invalid_value(f"{path}.{field}", name, told) for told in wrong(name)
            )


def _gates(gates: Sequence[Raw], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = str(gate.get("name") or "")
        yield from (
            api_errors.invalid_value(f"{path}[{i}]", name, told) for told in names.check_key(name)
        )
        if name in seen:
            yield api_errors.duplicate(f"{path}[{i}]", name)
        seen.add(name)


def _toleration(toleration: Raw, path: str) -> Iterator[Cause]:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if key:
        yield from (
            api_errors.invalid_value(f"{path}.key", key, told) for told in names.check_key(key)
        )
    elif operator != "Exists":
        told = (
            'operator must be Exists when `key` is empty, which means "match all values and all'
            ' keys"'
        )
        yield api_errors.invalid_value(f"{path}.operator", operator, told)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        told = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield api_errors.invalid_value(f"{path}.effect", effect, told)
    yield from one_of(toleration, "operator", ("Equal", "Exists"), path)
    if operator == "Exists" and value:
        told = "value must be empty when `operator` is 'Exists'"
        yield api_errors.invalid_value(f"{path}.operator", value, told)
    yield from one_of(toleration, "effect", _EFFECTS, path)
