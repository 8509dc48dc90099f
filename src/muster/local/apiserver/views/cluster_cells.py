"""What `kubectl get` shows of what an admin sets up: quotas, volumes, roles, groups of pods.

Pure; used by `columns.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.objects import at
from muster.local.apiserver.views.cells import UNSET, age_of, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    return [name_of(obj), obj["metadata"].get("creationTimestamp")]


def quota(quota: Raw, now: datetime) -> list[Any]:
    """One row."""
    hard, used = at(quota, "status.hard") or {}, at(quota, "status.used") or {}
    told = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in told.items() if name.startswith("limits")]
    others = [text for text in told.values() if text not in limits]
    return [name_of(quota), ", ".join(others), ", ".join(limits), age_of(quota, now)]


def volume(volume: Raw, now: datetime) -> list[Any]:
    """One row."""
    spec = volume.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(volume),
        at(spec, "capacity.storage") or "",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        at(volume, "status.reason") or "",
        age_of(volume, now),
        spec.get("volumeMode") or UNSET,
    ]


def claim(claim: Raw, now: datetime) -> list[Any]:
    """One row."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    bound = spec.get("volumeName") or ""
    return [
        name_of(claim),
        _phase(claim),
        bound,
        (at(status, "capacity.storage") or "") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(claim, now),
        spec.get("volumeMode") or UNSET,
    ]


def _phase(obj: Raw) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(at(obj, "status.phase") or "")


def _modes(modes: Sequence[str] | None) -> str:
    return ",".join(_MODES[mode] for mode in _MODES if mode in (modes or ()))


def storage_class(storage: Raw, now: datetime) -> list[Any]:
    """One row."""
    annotations = storage["metadata"].get("annotations") or {}
    default = " (default)" if annotations.get(_DEFAULT) == "true" else ""
    return [
        name_of(storage) + default,
        storage.get("provisioner", ""),
        storage.get("reclaimPolicy", "Delete"),
        storage.get("volumeBindingMode", "Immediate"),
        bool(storage.get("allowVolumeExpansion")),
        age_of(storage, now),
    ]


def binding(binding: Raw, now: datetime) -> list[Any]:
    """One row."""
    subjects = binding.get("subjects") or ()

    def of_kind(kind: str) -> list[Raw]:
        return [subject for subject in subjects if subject.get("kind") == kind]

    accounts = [f"{s.get('namespace', '')}/{s['name']}" for s in of_kind("ServiceAccount")]
    return [
        name_of(binding),
        f"{at(binding, 'roleRef.kind')}/{at(binding, 'roleRef.name')}",
        age_of(binding, now),
        ", ".join(s["name"] for s in of_kind("User")),
        ", ".join(s["name"] for s in of_kind("Group")),
        ", ".join(accounts),
    ]


def endpoint_slice(endpoints: Raw, now: datetime) -> list[Any]:
    """One row."""
    ports = [str(port.get("port") or "*") for port in endpoints.get("ports") or ()]
    found = [
        address
        for endpoint in endpoints.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    return [
        name_of(endpoints),
        endpoints.get("addressType", ""),
        _some(ports),
        _some(found),
        age_of(endpoints, now),
    ]


def _some(texts: list[str]) -> str:
    more = f" + {len(texts) - 3} more..." if len(texts) > 3 else ""
    return ",".join(texts[:3]) + more if texts else UNSET


def pod_group(group: Raw, now: datetime) -> list[Any]:
    """One row."""
    policy = at(group, "spec.schedulingPolicy") or {}
    conditions = at(group, "status.conditions") or ()
    scheduled: Raw = next((c for c in conditions if c.get("type") == "PodGroupScheduled"), {})
    words = {"True": "Scheduled", "False": "Unscheduled"}
    return [
        name_of(group),
        "Gang" if policy.get("gang") is not None else "Basic",
        at(group, "spec.podGroupTemplateRef.workload.workloadName") or "<none>",
        words.get(str(scheduled.get("status")), "Pending"),
        age_of(group, now),
    ]
