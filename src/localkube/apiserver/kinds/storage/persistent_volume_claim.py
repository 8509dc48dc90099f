"""PersistentVolumeClaim: defaults, checks, growth, quota, columns.

An update gives a claim its volume; a bound claim may request more storage if its class allows it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from kubekit.objects.quantity import Amount, parse_quantity
from localkube.apiserver import api_errors, codec
from localkube.apiserver.api_errors import Causes, forbidden_field, invalid_value, required
from localkube.apiserver.kinds.fields import ensure_map, fill
from localkube.apiserver.kinds.pods.pod_resources import ONE, amounts_of
from localkube.apiserver.kinds.policy import limit_range
from localkube.apiserver.kinds.storage.persistent_volume import (
    CLASS_COLUMNS,
    MODE_COLUMN,
    check_access_modes,
    phase,
    short_modes,
)
from localkube.apiserver.kinds.storage.storage_class import STORAGE_CLASSES
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.kinds.pods.pod_resources import Charge
    from localkube.apiserver.store.changes import ObjectReader

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
        yield required("spec.accessModes", "at least 1 access mode is required")
    yield from check_access_modes(spec)
    requested = codec.at(spec, "resources.requests.storage")
    if requested is None:
        yield required("spec.resources[storage]")
    elif parse_quantity(requested).nano <= 0:
        yield invalid_value("spec.resources[storage]", requested, "must be greater than zero")


def _check_update(new: Raw, old: Raw) -> Causes:
    bound = codec.at(old, "status.phase") == "Bound"
    if _fixed_part(new, old, bound=bound) != _fixed_part(old, old, bound=bound):
        yield forbidden_field("spec", _MUTABLE_FIELDS)
        return
    capacity, requested = codec.at(old, "status.capacity.storage"), codec.at(new, _STORAGE)
    # A request that could not be met may be taken back, but not below the storage that exists.
    shrinks = bound and requested and _is_less(requested, codec.at(old, _STORAGE))
    if shrinks and capacity and _is_less(requested, capacity):
        yield forbidden_field(_STORAGE, "field can not be less than status.capacity")


def _fixed_part(claim: Raw, old: Raw, *, bound: bool) -> Raw:
    """The spec without fields that are still to be set and, of a bound claim, its requests."""
    fixed = deepcopy(claim.get("spec") or {})
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


def _capacity(claim: Raw, now: datetime) -> str:
    return text(claim, "status.capacity.storage") if text(claim, "spec.volumeName") else ""


def _modes(claim: Raw, now: datetime) -> str:
    return short_modes(claim, "status.accessModes") if text(claim, "spec.volumeName") else ""


PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",),
    subresources=STATUS,
    strategy=Strategy(
        defaults=complete_claim,
        check=check_claim,
        check_update=_check_update,
        admit_update=_admit_update,
        delete_answer="object",
        charge=_charge,
        outside_of_range=limit_range.claim_violations,
        ranged_on_update=True,
        columns=NAME | {
            "Status": phase,
            "Volume": text_at("spec.volumeName"),
            "Capacity": _capacity,
            "Access Modes": _modes,
        } | CLASS_COLUMNS | AGE | MODE_COLUMN,
    ),
)  # fmt: skip
