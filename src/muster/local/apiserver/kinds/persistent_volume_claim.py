"""How a claim of storage may change: it gets its volume, and a bound one may ask for more.

Pure; called by `immutable.py` on every update of a claim, and by `policy.py`, which knows its
class.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from muster.api.quantity import parse_quantity
from muster.local.apiserver import api_errors, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_ONLY = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
    " bound claims"
)
_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
    " must support resize"
)
_STORAGE = "spec.resources.requests.storage"


def check_update(new: Raw, old: Raw) -> Iterator[Cause]:
    """What was changed in a claim though it may not be."""
    bound = objects.at(old, "status.phase") == "Bound"
    if _lasting(new, old, bound=bound) != _lasting(old, old, bound=bound):
        yield api_errors.forbidden_field("spec", _ONLY)
        return
    given, asked = objects.at(old, "status.capacity.storage"), objects.at(new, _STORAGE)
    if (
        bound
        and given
        and asked
        and _less(asked, given)
        and _less(asked, objects.at(old, _STORAGE))
    ):
        told = "field can not be less than status.capacity"
        yield api_errors.forbidden_field("spec.resources.requests.storage", told)


def check_growth(new: Raw, old: Raw, storage: Raw) -> None:
    """Raise a Refusal for a claim that asks for more of what cannot grow, as its class says."""
    asked, had = objects.at(new, _STORAGE), objects.at(old, _STORAGE)
    if asked and had and _less(had, asked) and not storage.get("allowVolumeExpansion"):
        name = str(new["metadata"]["name"])
        raise api_errors.forbidden("", "persistentvolumeclaims", name, _FIXED)


def _lasting(claim: Raw, old: Raw, *, bound: bool) -> Raw:
    """What must stay: all but what is not there yet and, of a bound claim, what it asks for."""
    lasting = deepcopy(claim.get("spec") or {})
    for name in ("volumeName", "storageClassName"):
        if not (old.get("spec") or {}).get(name):
            lasting.pop(name, None)
    if bound:
        lasting.pop("volumeAttributesClassName", None)
        (lasting.get("resources") or {}).pop("requests", None)
    return lasting


def _less(one: object, other: object) -> bool:
    return parse_quantity(one).nano < parse_quantity(other).nano
