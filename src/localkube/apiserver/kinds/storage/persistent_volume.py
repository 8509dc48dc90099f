"""PersistentVolume: defaults, checks, columns. Claims share the access modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, not_supported, required
from localkube.apiserver.kinds.fields import ensure_map, fill, fill_optional
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_NO_SOURCE = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def _defaults(volume: Raw) -> None:
    spec = ensure_map(volume, "spec")
    fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    fill_optional(spec, "hostPath", type="")
    fill(ensure_map(volume, "status"), phase="Pending")


def _finish_create(volume: Raw, now: str) -> None:
    volume["status"]["lastPhaseTransitionTime"] = now


def _check(volume: Raw) -> Causes:
    spec: Raw = volume.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from check_access_modes(spec)
    capacity = spec.get("capacity")
    if not capacity:
        yield required("spec.capacity")
    if list(capacity or ()) != ["storage"]:
        yield not_supported("spec.capacity", capacity, ("storage",))
    if not set(spec) - _NO_SOURCE:
        yield required("spec", "must specify a volume type")


def check_access_modes(spec: Raw) -> Causes:
    """The causes for unknown access modes of a volume or a claim."""
    for mode in spec.get("accessModes") or ():
        if mode not in _MODES:
            yield not_supported("spec.accessModes", mode, sorted(_MODES))


def phase(obj: Raw, now: datetime) -> str:
    """The phase of a volume or a claim."""
    return "Terminating" if cells.is_being_deleted(obj) else cells.text(obj, "status.phase")


def short_modes(obj: Raw, path: str) -> str:
    """The access modes at a path in one cell, shortened."""
    modes = cells.words(obj, path)
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _claim(volume: Raw, now: datetime) -> str:
    claim = cells.fields(volume, "spec.claimRef")
    return f"{cells.text(claim, 'namespace')}/{cells.text(claim, 'name')}" if claim else ""


CLASS_COLUMNS = {
    "StorageClass": cells.text_at("spec.storageClassName"),
    "VolumeAttributesClass": cells.text_at("spec.volumeAttributesClassName", cells.UNSET),
}
MODE_COLUMN = {"VolumeMode+": cells.text_at("spec.volumeMode", cells.UNSET)}

PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, short=("pv",), subresources=STATUS,
    strategy=Strategy(
        defaults=_defaults,
        finish_create=_finish_create,
        check=_check,
        immutable=("spec.volumeMode",),
        delete_answer="object",
        columns=cells.NAME | {
            "Capacity": cells.text_at("spec.capacity.storage"),
            "Access Modes": lambda volume, now: short_modes(volume, "spec.accessModes"),
            "Reclaim Policy": cells.text_at("spec.persistentVolumeReclaimPolicy"),
            "Status": phase,
            "Claim": _claim,
            **CLASS_COLUMNS,
            "Reason": cells.text_at("status.reason"),
        } | cells.AGE | MODE_COLUMN,
    ),
)  # fmt: skip
