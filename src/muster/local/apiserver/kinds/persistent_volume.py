"""PersistentVolume: defaults, checks, columns. Claims share the access modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.kinds.fields import ensure_map, fill
from muster.local.apiserver.resource import STATUS, Resource, Strategy
from muster.local.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

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
    spec = fill(
        ensure_map(volume, "spec"), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"
    )
    if isinstance(spec.get("hostPath"), dict):
        fill(spec["hostPath"], type="")
    fill(ensure_map(volume, "status"), phase="Pending")


def _finish_create(volume: Raw, now: str) -> None:
    volume["status"]["lastPhaseTransitionTime"] = now


def _check(volume: Raw) -> api_errors.Causes:
    spec: Raw = volume.get("spec") or {}
    if not spec.get("accessModes"):
        yield api_errors.required("spec.accessModes")
    yield from check_access_modes(spec)
    capacity = spec.get("capacity")
    if not capacity:
        yield api_errors.required("spec.capacity")
    if list(capacity or ()) != ["storage"]:
        yield api_errors.not_supported("spec.capacity", capacity, ("storage",))
    if not set(spec) - _NO_SOURCE:
        yield api_errors.required("spec", "must specify a volume type")


def check_access_modes(spec: Raw) -> api_errors.Causes:
    """The causes for unknown access modes of a volume or a claim."""
    for mode in spec.get("accessModes") or ():
        if mode not in _MODES:
            yield api_errors.not_supported("spec.accessModes", mode, sorted(_MODES))


def phase_cell(obj: Raw) -> str:
    """The phase of a volume or a claim."""
    return "Terminating" if cells.is_being_deleted(obj) else cells.text(obj, "status.phase")


def modes_cell(obj: Raw, side: str) -> str:
    """The access modes in the spec or status, shortened."""
    modes = cells.words(obj, f"{side}.accessModes")
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _cells(volume: Raw, now: datetime) -> list[Any]:
    claim = cells.fields(volume, "spec.claimRef")
    return [
        cells.name_of(volume),
        cells.text(volume, "spec.capacity.storage"),
        modes_cell(volume, "spec"),
        cells.text(volume, "spec.persistentVolumeReclaimPolicy"),
        phase_cell(volume),
        f"{cells.text(claim, 'namespace')}/{cells.text(claim, 'name')}" if claim else "",
        cells.text(volume, "spec.storageClassName"),
        cells.text(volume, "spec.volumeAttributesClassName", cells.UNSET),
        cells.text(volume, "status.reason"),
        cells.age_of(volume, now),
        cells.text(volume, "spec.volumeMode", cells.UNSET),
    ]


PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, short=("pv",), subresources=STATUS,
    strategy=Strategy(
        defaults=_defaults,
        finish_create=_finish_create,
        check=_check,
        immutable=("spec.volumeMode",),
        delete_answer="object",
        columns=(
            "Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim",
            "StorageClass", "VolumeAttributesClass", "Reason", "Age", "VolumeMode+",
        ),
        cells=_cells,
    ),
)  # fmt: skip
