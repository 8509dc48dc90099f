"""Which objects are a controller's own, by owner reference and selector: pure.

An object that the controller owns and that no longer matches its selector is let go; one that
nobody controls and that matches is taken in. A controller that is being deleted does neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from muster.local.controllers.kinds import preconditions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import HasMetadata, ObjectMeta, OwnerReference, Raw
    from muster.api.selectors import Selector

    T = TypeVar("T", bound=HasMetadata)
else:
    T = TypeVar("T")


@dataclass(frozen=True)
class OwnedObjects(Generic[T]):
    """`mine` are owned and match; the others still have to be written."""

    mine: list[T]
    adopt: list[T]
    release: list[T]


def find_owned(owner: ObjectMeta, selector: Selector, candidates: Iterable[T]) -> OwnedObjects[T]:
    """Sort objects of the owner's namespace by whom they belong to."""
    found: OwnedObjects[T] = OwnedObjects([], [], [])
    going = owner.deletion_timestamp is not None
    for one in candidates:
        meta = one.metadata
        matches = selector.matches(meta.labels)
        if meta.controller is not None:
            if meta.controller.uid != owner.uid:
                continue
            if matches:
                found.mine.append(one)
            elif not going:
                found.release.append(one)
        elif matches and not going and meta.deletion_timestamp is None:
            found.adopt.append(one)
    return found


def adoption_patch(meta: ObjectMeta, reference: Raw) -> Raw:
    """The patch that gives an object its controller, if it is still as we saw it."""
    others = [plain_reference(owner) for owner in meta.owner_references]
    return {"metadata": {**preconditions(meta), "ownerReferences": [*others, reference]}}


def release_patch(meta: ObjectMeta, owner: str) -> Raw:
    """The patch that takes this owner away."""
    left = [plain_reference(one) for one in meta.owner_references if one.uid != owner]
    return {"metadata": {**preconditions(meta), "ownerReferences": left}}


def plain_reference(owner: OwnerReference) -> Raw:
    """An owner reference as it is written."""
    found: Raw = msgspec.to_builtins(owner)
    return {key: value for key, value in found.items() if value is not None}
