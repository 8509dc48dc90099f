"""Which objects a controller owns, adopts and releases, by owner reference and selector: pure.

A controller releases objects that it owns but that no longer match its selector, and adopts objects
that match and have no controller. A controller that is being deleted does neither: garbage
collection decides what happens to its objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from kubekit.objects.meta import preconditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubekit.objects.meta import HasMetadata, ObjectMeta, OwnerReference, Raw
    from kubekit.objects.selectors import Selector

    T = TypeVar("T", bound=HasMetadata)
else:
    T = TypeVar("T")


@dataclass(frozen=True)
class OwnedObjects(Generic[T]):
    """Objects that the owner controls, and objects that a patch must add or remove."""

    owned: list[T]
    adopt: list[ObjectMeta]
    release: list[ObjectMeta]


def find_owned(
    owner: ObjectMeta,
    selector: Selector,
    candidates: Iterable[T],
    is_member: Callable[[T], bool] | None = None,
) -> OwnedObjects[T]:
    """Sort objects of the owner's namespace; with `is_member`, not every matching one is its."""
    result: OwnedObjects[T] = OwnedObjects([], [], [])
    terminating = owner.deletion_timestamp is not None
    for candidate in candidates:
        meta = candidate.metadata
        matches = selector.matches(meta.labels) and (is_member is None or is_member(candidate))
        if meta.controller is not None:
            if meta.controller.uid != owner.uid:
                continue
            if matches:
                result.owned.append(candidate)
            elif not terminating:
                result.release.append(meta)
        elif matches and not terminating and meta.deletion_timestamp is None:
            result.adopt.append(meta)
    return result


def adoption_patch(meta: ObjectMeta, reference: Raw) -> Raw:
    """The patch that adds an owner, unless the object changed since."""
    others = [reference_manifest(owner) for owner in meta.owner_references]
    return {"metadata": {**preconditions(meta), "ownerReferences": [*others, reference]}}


def release_patch(meta: ObjectMeta, owner: str) -> Raw:
    """The patch that removes an owner, unless the object changed since."""
    others = [reference_manifest(o) for o in meta.owner_references if o.uid != owner]
    return {"metadata": {**preconditions(meta), "ownerReferences": others}}


def reference_manifest(owner: OwnerReference) -> Raw:
    fields: Raw = msgspec.to_builtins(owner)
    return {name: value for name, value in fields.items() if value is not None}
