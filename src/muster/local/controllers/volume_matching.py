"""Which existing volume a claim is bound to: pure, by Kubernetes' rules.

A volume fits a claim if class, mode, access modes and labels match and it is large enough; the
smallest is chosen. A volume that names a claim is for this claim only, and a claim that names a
volume gets this one or none.

`api/storage.py` has similar rules for the scheduler, which chooses a node before anything is bound.
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
    """The volume for the claim; None if there is none yet."""
    fitting = [volume for volume in volumes if _fits(claim, volume)]
    return min(fitting, key=lambda v: (not v["spec"].get("claimRef"), _size(v)), default=None)


def is_reserved_for(volume: Raw, claim: Key) -> bool:
    """Whether the volume names this claim."""
    reference = volume["spec"].get("claimRef") or {}
    return (reference.get("namespace"), reference.get("name")) == (claim.namespace, claim.name)


def _fits(claim: Raw, volume: Raw) -> bool:
    request, offer = claim["spec"], volume["spec"]
    if request.get("volumeName"):
        named = volume["metadata"]["name"] == request["volumeName"]
        return named and _is_free(claim, volume)
    return (
        _is_free(claim, volume)
        and offer.get("storageClassName", "") == request.get("storageClassName", "")
        and offer.get("volumeMode", "Filesystem") == request.get("volumeMode", "Filesystem")
        and set(request.get("accessModes", ())) <= set(offer.get("accessModes", ()))
        and _size(volume) >= _requested_size(claim)
        and _matches_selector(claim, volume)
    )


def _is_free(claim: Raw, volume: Raw) -> bool:
    """Whether no other claim has or had it: data of an earlier claim is not for others."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return not volume["metadata"].get("deletionTimestamp")
    same = reference.get("uid") in (None, "", claim["metadata"]["uid"])
    return is_reserved_for(volume, key_of(claim)) and same


def _matches_selector(claim: Raw, volume: Raw) -> bool:
    body = claim["spec"].get("selector")
    if body is None:
        return True
    selector = selectors.from_labels(msgspec.convert(body, LabelSelector))
    return selector.matches(volume["metadata"].get("labels") or {})


def _size(volume: Raw) -> int:
    return quantity.parse_whole((volume["spec"].get("capacity") or {}).get("storage", 0))


def _requested_size(claim: Raw) -> int:
    resources = claim["spec"].get("resources") or {}
    return quantity.parse_whole((resources.get("requests") or {}).get("storage", 0))
