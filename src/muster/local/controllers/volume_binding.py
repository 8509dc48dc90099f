"""Which volume that somebody made a claim gets: pure, by Kubernetes' rules.

Used by `claims`. A volume is for a claim if class, mode and access modes agree, it is large enough
and has the labels asked for; the smallest such one is taken. A volume that names a claim is for
that claim only, a claim that names a volume gets that one or none.

The scheduler knows much the same rules (`scheduler/storage.py`), to choose a node before anything
is bound; the two meet only at the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.api import quantity, selectors
from muster.api.affinity import LabelSelector
from muster.api.meta import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Key, Raw


def choose_volume(claim: Raw, volumes: Iterable[Raw]) -> Raw | None:
    """The volume that the claim gets; None if there is none for it yet."""
    found = [volume for volume in volumes if _suits(claim, volume)]
    return min(found, key=lambda v: (not v["spec"].get("claimRef"), _size(v)), default=None)


def is_reserved_for(volume: Raw, claim: Key) -> bool:
    """Whether the volume names a claim of that name."""
    reference = volume["spec"].get("claimRef") or {}
    return (reference.get("namespace"), reference.get("name")) == (claim.namespace, claim.name)


def _suits(claim: Raw, volume: Raw) -> bool:
    wants, has = claim["spec"], volume["spec"]
    if wants.get("volumeName"):
        named = volume["metadata"]["name"] == wants["volumeName"]
        return named and _is_free(claim, volume)
    return (
        _is_free(claim, volume)
        and has.get("storageClassName", "") == wants.get("storageClassName", "")
        and has.get("volumeMode", "Filesystem") == wants.get("volumeMode", "Filesystem")
        and set(wants.get("accessModes", ())) <= set(has.get("accessModes", ()))
        and _size(volume) >= _asked(claim)
        and _is_labelled(claim, volume)
    )


def _is_free(claim: Raw, volume: Raw) -> bool:
    """Whether no claim has it, or had it: what an earlier one left there is not for others."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return not volume["metadata"].get("deletionTimestamp")
    same = reference.get("uid") in (None, "", claim["metadata"]["uid"])
    return is_reserved_for(volume, key_of(claim)) and same


def _is_labelled(claim: Raw, volume: Raw) -> bool:
    wanted = claim["spec"].get("selector")
    if wanted is None:
        return True
    selector = selectors.from_labels(msgspec.convert(wanted, LabelSelector))
    return selector.matches(volume["metadata"].get("labels") or {})


def _size(volume: Raw) -> int:
    return quantity.parse_whole((volume["spec"].get("capacity") or {}).get("storage", 0))


def _asked(claim: Raw) -> int:
    resources = claim["spec"].get("resources") or {}
    return quantity.parse_whole((resources.get("requests") or {}).get("storage", 0))
