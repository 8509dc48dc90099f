"""Who belongs to whom, in memory, and what that means for an object: pure.

The inventory feeds `Graph`, the garbage collector asks `judge`. An owner is known by its
UID: another object of the same name is somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.kinds import Kind
    from muster.api.meta import ObjectMeta, OwnerReference

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True)
class Item:
    """One object of any kind."""

    kind: Kind[Any]
    meta: ObjectMeta

    @property
    def deleting(self) -> bool:
        return self.meta.deletion_timestamp is not None

    def waits_with(self, finalizer: str) -> bool:
        """Whether it is being deleted and this finalizer still holds it."""
        return self.deleting and finalizer in self.meta.finalizers


class OwnerGraph:
    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, set[str]] = {}
        self._inside: dict[str, set[str]] = {}

    def put(self, item: Item) -> None:
        self.remove(item.meta.uid)
        self._items[item.meta.uid] = item
        for owner in item.meta.owner_references:
            self._dependents.setdefault(owner.uid, set()).add(item.meta.uid)
        if item.meta.namespace:
            self._inside.setdefault(item.meta.namespace, set()).add(item.meta.uid)

    def remove(self, uid: str) -> None:
        item = self._items.pop(uid, None)
        if item is None:
            return
        for owner in item.meta.owner_references:
            _take(self._dependents, owner.uid, uid)
        _take(self._inside, item.meta.namespace, uid)

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        return [self._items[each] for each in sorted(self._dependents.get(uid, ()))]

    def inside(self, namespace: str) -> list[Item]:
        """Everything in a namespace."""
        return [self._items[each] for each in sorted(self._inside.get(namespace, ()))]


def _take(groups: dict[str, set[str]], name: str, member: str) -> None:
    """Take a member out of its group; an empty group goes."""
    group = groups.get(name, set())
    group.discard(member)
    if not group:
        groups.pop(name, None)


class OwnerState(Enum):
    """How it stands with one owner of an object."""

    HERE = "here"
    GOING = "going"  # being deleted, and waits for its dependents to go first
    GONE = "gone"
    UNKNOWN = "unknown"  # of a kind that the API does not have: not ours to judge


@dataclass(frozen=True)
class Keep:
    """It stays."""


@dataclass(frozen=True)
class Wait:
    """It cannot be told now."""


@dataclass(frozen=True)
class Drop:
    """It stays, but only these owners are left."""

    owners: tuple[OwnerReference, ...]


@dataclass(frozen=True)
class Delete:
    """It goes, in this way."""

    propagation: str


Verdict = Keep | Wait | Drop | Delete


def judge(item: Item, owners: Mapping[str, OwnerState]) -> Verdict:
    """What becomes of an object whose owners stand so."""
    references = item.meta.owner_references
    if not references or item.deleting:
        return Keep()
    standing = [owners[reference.uid] for reference in references]
    if OwnerState.UNKNOWN in standing:
        return Wait()
    if OwnerState.HERE in standing:
        kept = tuple(r for r in references if owners[r.uid] is OwnerState.HERE)
        return Drop(kept) if len(kept) < len(references) else Keep()
    return Delete("Foreground" if OwnerState.GOING in standing else _own_way(item))


def _own_way(item: Item) -> str:
    if ORPHAN in item.meta.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in item.meta.finalizers else "Background"


def blocking(item: Item, owner: str) -> bool:
    """Whether an owner that is deleted in the foreground waits for this object."""
    return any(
        reference.uid == owner and reference.block_owner_deletion
        for reference in item.meta.owner_references
    )
