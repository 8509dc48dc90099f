"""What persistent volumes and claims may not be.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import objects, status
from muster.local.apiserver.quota.amounts import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

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
        yield status.required("spec.accessModes", "at least 1 access mode is required")
    yield from _modes(spec)
    asked = objects.at(spec, "resources.requests.storage")
    if asked is None:
        yield status.required("spec.resources[storage]")
    elif parse(asked).nano <= 0:
        yield status.bad_value("spec.resources[storage]", asked, "must be greater than zero")


def volume(volume: Raw) -> Iterator[Cause]:
    """What is wrong with a volume."""
    spec: Raw = volume.get("spec") or {}
    if not spec.get("accessModes"):
        yield status.required("spec.accessModes")
    yield from _modes(spec)
    capacity = spec.get("capacity")
    if not capacity:
        yield status.required("spec.capacity")
    if list(capacity or ()) != ["storage"]:
        yield status.not_supported("spec.capacity", capacity, ("storage",))
    if not set(spec) - _NO_SOURCE:
        yield status.required("spec", "must specify a volume type")


def _modes(spec: Raw) -> Iterator[Cause]:
    for mode in spec.get("accessModes") or ():
        if mode not in _MODES:
            yield status.not_supported("spec.accessModes", mode, _MODES)
