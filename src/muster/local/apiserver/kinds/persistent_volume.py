"""What persistent volumes and claims may not be.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.quantity import parse_quantity
from muster.local.apiserver import api_errors, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
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


def claim(claim: Raw) -> Iterator[Cause]:
    """What is wrong with a claim."""
    spec: Raw = claim.get("spec") or {}
    if not spec.get("accessModes"):
        yield api_errors.required("spec.accessModes", "at least 1 access mode is required")
    yield from _modes(spec)
    asked = objects.at(spec, "resources.requests.storage")
    if asked is None:
        yield api_errors.required("spec.resources[storage]")
    elif parse_quantity(asked).nano <= 0:
        yield api_errors.invalid_value(
            "spec.resources[storage]", asked, "must be greater than zero"
        )


def volume(volume: Raw) -> Iterator[Cause]:
    """What is wrong with a volume."""
    spec: Raw = volume.get("spec") or {}
    if not spec.get("accessModes"):
        yield api_errors.required("spec.accessModes")
    yield from _modes(spec)
    capacity = spec.get("capacity")
    if not capacity:
        yield api_errors.required("spec.capacity")
    if list(capacity or ()) != ["storage"]:
        yield api_errors.not_supported("spec.capacity", capacity, ("storage",))
    if not set(spec) - _NO_SOURCE:
        yield api_errors.required("spec", "must specify a volume type")


def _modes(spec: Raw) -> Iterator[Cause]:
    for mode in spec.get("accessModes") or ():
        if mode not in _MODES:
            yield api_errors.not_supported("spec.accessModes", mode, _MODES)
