"""What a pod's spec may not be, in a pod or in a template.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import objects, status
from muster.local.apiserver.admission import names
from muster.local.apiserver.admission.validation import affinity, containers
from muster.local.apiserver.admission.validation.containers import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
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


def check(spec: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the spec."""
    volumes: set[str] = set()
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(volume, f"{path}.volumes[{i}]", volumes)
    if not spec.get("containers"):
        yield status.required(f"{path}.containers")
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{i}]"
            yield from containers.check(container, where, volumes)
            name = str(container.get("name") or "")
            if name and name in seen:
                yield status.duplicate(f"{where}.name", name)
            seen.add(name)
    yield from one_of(spec, "restartPolicy", _RESTART, path)
    yield from one_of(spec, "dnsPolicy", _DNS, path)
    yield from names.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if spec.get("affinity"):
        yield from affinity.check(spec["affinity"], f"{path}.affinity")
    yield from _gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    yield from _named(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        told = "must be between 1 and 2147483647, inclusive"
        yield status.bad_value(f"{path}.activeDeadlineSeconds", deadline, told)
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{i}]")


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
            yield from (status.bad_value(f"{path}.{field}", name, told) for told in wrong(name))


def _gates(gates: Sequence[Raw], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = str(gate.get("name") or "")
        yield from (status.bad_value(f"{path}[{i}]", name, told) for told in names.check_key(name))
        if name in seen:
            yield status.duplicate(f"{path}[{i}]", name)
        seen.add(name)


def _volume(volume: Raw, path: str, names_taken: set[str]) -> Iterator[Cause]:
    sources = [kind for kind in volume if kind != "name" and volume[kind] is not None]
    for kind in sorted(sources)[1:]:
        told = "may not specify more than 1 volume type"
        yield status.forbidden_field(f"{path}.{kind}", told)
    for kind in sorted(sources)[:1]:
        needed = _NEEDED.get(kind)
        if needed and not objects.at(volume, f"{kind}.{needed}"):
            yield status.required(f"{path}.{kind}.{needed}")
        if kind == "hostPath":
            yield from one_of(volume[kind], "type", _HOST_PATHS, f"{path}.{kind}")
    name = str(volume.get("name") or "")
    wrong = names.check_label(name) if name else []
    if not name:
        yield status.required(f"{path}.name")
    yield from (status.bad_value(f"{path}.name", name, told) for told in wrong)
    if name in names_taken:
        yield status.duplicate(f"{path}.name", name)
    if name and not wrong:
        names_taken.add(name)


def _toleration(toleration: Raw, path: str) -> Iterator[Cause]:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if key:
        yield from (status.bad_value(f"{path}.key", key, told) for told in names.check_key(key))
    elif operator != "Exists":
        told = (
            'operator must be Exists when `key` is empty, which means "match all values and all'
            ' keys"'
        )
        yield status.bad_value(f"{path}.operator", operator, told)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        told = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield status.bad_value(f"{path}.effect", effect, told)
    yield from one_of(toleration, "operator", ("Equal", "Exists"), path)
    if operator == "Exists" and value:
        told = "value must be empty when `operator` is 'Exists'"
        yield status.bad_value(f"{path}.operator", value, told)
    yield from one_of(toleration, "effect", _EFFECTS, path)
