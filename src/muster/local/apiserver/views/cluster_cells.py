"""What `kubectl get` shows of what an admin sets up: quotas, volumes, roles, groups of pods.

Pure; used by `columns.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.objects import at
from muster.local.apiserver.views.cells import (
    NONE,
    UNSET,
    age_of,
    conditions,
    fields,
    is_being_deleted,
    name_of,
    number,
    rows,
    text,
    words,
)

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def dated(obj: Raw, now: datetime) -> list[Any]:
    """What is shown with the time it was made at."""
    return [name_of(obj), text(obj, "metadata.creationTimestamp")]


def quota(quota: Raw, now: datetime) -> list[Any]:
    """One row."""
    hard, used = fields(quota, "status.hard"), fields(quota, "status.used")
    told = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    limits = [shown for name, shown in told.items() if name.startswith("limits")]
    others = [shown for shown in told.values() if shown not in limits]
    return [name_of(quota), ", ".join(others), ", ".join(limits), age_of(quota, now)]


def volume(volume: Raw, now: datetime) -> list[Any]:
    """One row."""
    claim = f"{text(volume, 'spec.claimRef.namespace')}/{text(volume, 'spec.claimRef.name')}"
    return [
        name_of(volume),
        text(volume, "spec.capacity.storage"),
        _modes(volume, "spec"),
        text(volume, "spec.persistentVolumeReclaimPolicy"),
        _phase(volume),
        claim if fields(volume, "spec.claimRef") else "",
        text(volume, "spec.storageClassName"),
        text(volume, "spec.volumeAttributesClassName", UNSET),
        text(volume, "status.reason"),
        age_of(volume, now),
        text(volume, "spec.volumeMode", UNSET),
    ]


def claim(claim: Raw, now: datetime) -> list[Any]:
    """One row."""
    bound = text(claim, "spec.volumeName")
    return [
        name_of(claim),
        _phase(claim),
        bound,
        text(claim, "status.capacity.storage") if bound else "",
        _modes(claim, "status") if bound else "",
        text(claim, "spec.storageClassName"),
        text(claim, "spec.volumeAttributesClassName", UNSET),
        age_of(claim, now),
        text(claim, "spec.volumeMode", UNSET),
    ]


def _phase(obj: Raw) -> str:
    return "Terminating" if is_being_deleted(obj) else text(obj, "status.phase")


def _modes(obj: Raw, side: str) -> str:
    found = words(obj, f"{side}.accessModes")
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def storage_class(storage: Raw, now: datetime) -> list[Any]:
    """One row."""
    default = fields(storage, "metadata.annotations").get(_DEFAULT) == "true"
    return [
        name_of(storage) + (" (default)" if default else ""),
        text(storage, "provisioner"),
        text(storage, "reclaimPolicy", "Delete"),
        text(storage, "volumeBindingMode", "Immediate"),
        bool(storage.get("allowVolumeExpansion")),
        age_of(storage, now),
    ]


def binding(binding: Raw, now: datetime) -> list[Any]:
    """One row."""
    subjects = rows(binding, "subjects")

    def of_kind(kind: str) -> list[Raw]:
        return [subject for subject in subjects if text(subject, "kind") == kind]

    accounts = (f"{text(s, 'namespace')}/{text(s, 'name')}" for s in of_kind("ServiceAccount"))
    return [
        name_of(binding),
        f"{text(binding, 'roleRef.kind')}/{text(binding, 'roleRef.name')}",
        age_of(binding, now),
        ", ".join(text(s, "name") for s in of_kind("User")),
        ", ".join(text(s, "name") for s in of_kind("Group")),
        ", ".join(accounts),
    ]


def endpoint_slice(endpoints: Raw, now: datetime) -> list[Any]:
    """One row."""
    ports = [str(number(port, "port")) for port in rows(endpoints, "ports") if "port" in port]
    found = [a for endpoint in rows(endpoints, "endpoints") for a in words(endpoint, "addresses")]
    return [
        name_of(endpoints),
        text(endpoints, "addressType"),
        _some(ports),
        _some(found),
        age_of(endpoints, now),
    ]


def _some(found: list[str]) -> str:
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more if found else UNSET


def pod_group(group: Raw, now: datetime) -> list[Any]:
    """One row."""
    words_of = {"True": "Scheduled", "False": "Unscheduled"}
    scheduled = conditions(group, "PodGroupScheduled")[:1]
    gang = at(group, "spec.schedulingPolicy.gang") is not None
    return [
        name_of(group),
        "Gang" if gang else "Basic",
        text(group, "spec.podGroupTemplateRef.workload.workloadName", NONE),
        next((words_of.get(text(c, "status"), "Pending") for c in scheduled), "Pending"),
        age_of(group, now),
    ]
