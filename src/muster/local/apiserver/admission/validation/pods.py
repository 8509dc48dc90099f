"""What a pod's spec may not be, in a pod or in a template.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status
from muster.local.apiserver.admission import names
from muster.local.apiserver.admission.validation import affinity, containers, pod_volumes, security
from muster.local.apiserver.admission.validation.containers import one_of
from muster.local.apiserver.admission.validation.resources import check_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check(spec: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the spec."""
    volumes: set[str] = set()
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from pod_volumes.check(volume, f"{path}.volumes[{i}]", volumes)
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
    yield from check_whole(spec.get("resources") or {}, f"{path}.resources")
    yield from one_of(spec, "restartPolicy", _RESTART, path)
    yield from security.check_pod(spec.get("securityContext") or {}, f"{path}.securityContext")
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


def check_new(spec: Raw) -> Iterator[Cause]:
    """What is wrong with the spec of a pod that is about to be created."""
    if spec.get("ephemeralContainers"):
        yield status.forbidden_field("spec.ephemeralContainers", "cannot be set on create")


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
