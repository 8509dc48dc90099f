"""PersistentVolume, PersistentVolumeClaim and StorageClass: defaults, checks, quota, columns.

An update gives a claim its volume; a bound claim may request more storage if its class allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.quantity import Amount, parse_quantity
from localkube.apiserver import api_errors, causes, codec, rules
from localkube.apiserver.kinds import quotas_and_limit_ranges
from localkube.apiserver.kinds.field_rules import check_required, ensure_map, fill, fill_optional
from localkube.apiserver.kinds.pod_resources import ONE, amounts_of
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views import cells
from localkube.apiserver.views.cells import AGE, NAME, fields, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.kinds.pod_resources import Charge
    from localkube.apiserver.store.collection import ObjectReader


# -- PersistentVolume ----------------------------------------------------------------------------

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_NO_SOURCE = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
        "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName",
        "volumeMode",
    }
)  # fmt: skip


def _complete_volume(volume: Raw) -> None:
    spec = ensure_map(volume, "spec")
    fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    fill_optional(spec, "hostPath", type="")
    fill(ensure_map(volume, "status"), phase="Pending")


def _check(volume: Raw) -> Causes:
    spec: Raw = volume.get("spec") or {}
    yield from check_required(spec, "spec", "accessModes")
    yield from _check_access_modes(spec)
    capacity = spec.get("capacity")
    yield from check_required(spec, "spec", "capacity")
    if list(capacity or ()) != ["storage"]:
        yield causes.not_supported("spec.capacity", capacity, ("storage",))
    if not set(spec) - _NO_SOURCE:
        yield causes.required("spec", "must specify a volume type")


def _check_access_modes(spec: Raw) -> Causes:
    """The causes for unknown access modes of a volume or a claim."""
    for mode in spec.get("accessModes") or ():
        if mode not in _MODES:
            yield causes.not_supported("spec.accessModes", mode, sorted(_MODES))


def phase(obj: Raw, now: datetime) -> str:
    """The phase of a volume or a claim."""
    return "Terminating" if cells.is_being_deleted(obj) else text(obj, "status.phase")


def _short_modes(path: str) -> cells.Cell:
    """The column of the access modes at a path, shortened."""
    return lambda obj, now: ",".join(
        short for mode, short in _MODES.items() if mode in cells.words(obj, path)
    )


def _claim(volume: Raw, now: datetime) -> str:
    claim = fields(volume, "spec.claimRef")
    return f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else ""


_CLASS_COLUMNS = {
    "StorageClass": text_at("spec.storageClassName"),
    "VolumeAttributesClass": text_at("spec.volumeAttributesClassName", cells.UNSET),
}
_MODE_COLUMN = {"VolumeMode+": text_at("spec.volumeMode", cells.UNSET)}

PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, short=("pv",), subresources=STATUS,
    strategy=rules.Strategy(
        completion=rules.Completion(
            defaults=_complete_volume,
            finish_create=lambda pv, now: pv["status"].update(lastPhaseTransitionTime=now),
        ),
        checks=rules.Checks(always=_check, immutable=("spec.volumeMode",)),
        deletion=rules.Deletion(answer="object"),
        table=rules.Table(NAME | {
            "Capacity": text_at("spec.capacity.storage"),
            "Access Modes": _short_modes("spec.accessModes"),
            "Reclaim Policy": text_at("spec.persistentVolumeReclaimPolicy"),
            "Status": phase,
            "Claim": _claim,
            **_CLASS_COLUMNS,
            "Reason": text_at("status.reason"),
        } | AGE | _MODE_COLUMN),
    ),
)  # fmt: skip


# -- PersistentVolumeClaim -----------------------------------------------------------------------

_MUTABLE_FIELDS = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
    " bound claims"
)
_NO_GROWTH = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
    " must support resize"
)
_STORAGE = "spec.resources.requests.storage"


def complete_claim(claim: Raw) -> None:
    """Fill in the defaults of a claim, or of the template of one."""
    fill(ensure_map(claim, "spec"), volumeMode="Filesystem")
    fill(ensure_map(claim, "status"), phase="Pending")


def check_claim(claim: Raw) -> Causes:
    spec: Raw = claim.get("spec") or {}
    if not spec.get("accessModes"):
        yield causes.required("spec.accessModes", "at least 1 access mode is required")
    yield from _check_access_modes(spec)
    requested = codec.at(spec, "resources.requests.storage")
    if requested is None:
        yield causes.required("spec.resources[storage]")
    elif parse_quantity(requested).nano <= 0:
        yield causes.invalid("spec.resources[storage]", requested, "must be greater than zero")


def _check_update(new: Raw, old: Raw) -> Causes:
    bound = codec.at(old, "status.phase") == "Bound"
    if _fixed_part(new, old, bound=bound) != _fixed_part(old, old, bound=bound):
        yield causes.forbidden("spec", _MUTABLE_FIELDS)
        return
    capacity, requested = codec.at(old, "status.capacity.storage"), codec.at(new, _STORAGE)
    # A request that could not be met may be taken back, but not below the storage that exists.
    shrinks = bound and requested and _is_less(requested, codec.at(old, _STORAGE))
    if shrinks and capacity and _is_less(requested, capacity):
        yield causes.forbidden(_STORAGE, "field can not be less than status.capacity")


def _fixed_part(claim: Raw, old: Raw, *, bound: bool) -> Raw:
    """The spec without fields that are still to be set and, of a bound claim, its requests."""
    fixed = codec.copy(claim.get("spec") or {})
    for name in ("volumeName", "storageClassName"):
        if not (old.get("spec") or {}).get(name):
            fixed.pop(name, None)
    if bound:
        fixed.pop("volumeAttributesClassName", None)
        (fixed.get("resources") or {}).pop("requests", None)
    return fixed


def _admit_update(new: Raw, old: Raw, store: ObjectReader, now: datetime) -> None:
    """Reject a claim that requests more storage than before, if its class does not allow it."""
    requested, before = codec.at(new, _STORAGE), codec.at(old, _STORAGE)
    if not requested or not before or not _is_less(before, requested):
        return
    name = new["spec"].get("storageClassName") or ""
    entry = store.get(f"{STORAGE_CLASSES.collection}//{name}")
    if entry is None or not codec.decode(entry.value).get("allowVolumeExpansion"):
        name = str(new["metadata"]["name"])
        raise api_errors.forbidden("", "persistentvolumeclaims", name, _NO_GROWTH)


def _is_less(amount: object, other: object) -> bool:
    return parse_quantity(amount).nano < parse_quantity(other).nano


def _charge(claim: Raw) -> Charge:
    spec = claim.get("spec") or {}
    storage = amounts_of(spec, "requests").get("storage", Amount())
    used = {"persistentvolumeclaims": ONE, "requests.storage": storage}
    if spec.get("storageClassName"):
        prefix = f"{spec['storageClassName']}.storageclass.storage.k8s.io/"
        used |= {f"{prefix}requests.storage": storage, f"{prefix}persistentvolumeclaims": ONE}
    return used


def _if_bound(cell: cells.Cell) -> cells.Cell:
    return lambda claim, now: cell(claim, now) if text(claim, "spec.volumeName") else ""


PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",),
    subresources=STATUS,
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=complete_claim),
        checks=rules.Checks(always=check_claim, update=_check_update),
        admission=rules.Admission(update=_admit_update),
        deletion=rules.Deletion(answer="object"),
        quota=rules.Quota(charge=_charge),
        ranges=rules.Ranges(violations=quotas_and_limit_ranges.claim_violations, on_update=True),
        table=rules.Table(NAME | {
            "Status": phase,
            "Volume": text_at("spec.volumeName"),
            "Capacity": _if_bound(text_at("status.capacity.storage")),
            "Access Modes": _if_bound(_short_modes("status.accessModes")),
        } | _CLASS_COLUMNS | AGE | _MODE_COLUMN),
    ),
)  # fmt: skip


# -- StorageClass --------------------------------------------------------------------------------

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _name(storage_class: Raw, now: datetime) -> str:
    default = fields(storage_class, "metadata.annotations").get(_DEFAULT) == "true"
    return text(storage_class, "metadata.name") + (" (default)" if default else "")


STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short=("sc",),
    strategy=rules.Strategy(
        completion=rules.Completion(
            defaults=lambda sc: fill(sc, reclaimPolicy="Delete", volumeBindingMode="Immediate")
        ),
        checks=rules.Checks(immutable=("provisioner", "parameters")),
        deletion=rules.Deletion(answer="object"),
        table=rules.Table({
            "Name": _name,
            "Provisioner": text_at("provisioner"),
            "ReclaimPolicy": text_at("reclaimPolicy", "Delete"),
            "VolumeBindingMode": text_at("volumeBindingMode", "Immediate"),
            "AllowVolumeExpansion": lambda sc, now: bool(sc.get("allowVolumeExpansion")),
        } | AGE),
    ),
)  # fmt: skip
