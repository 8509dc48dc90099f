"""Owners and dependents in memory, and whether an object is garbage: pure.

Owners are identified by UID: another object of the same name is another object. Only the edges are
stored, so an owner may be known by its dependents before its own watch shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import ObjectMeta, OwnerReference

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
        """Whether it is being deleted and waits for this finalizer."""
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
            _discard(self._dependents, owner.uid, uid)
        _discard(self._inside, item.meta.namespace, uid)

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        return [self._items[each] for each in sorted(self._dependents.get(uid, ()))]

    def blockers(self, uid: str) -> list[Item]:
        """The dependents that an owner deleted in the foreground waits for.

        In a cycle of owners every object would wait for itself. So a dependent that waits for the
        owner, directly or through others, does not count: the whole cycle is being deleted.
        """
        blocking = [item for item in self.dependents(uid) if is_blocking(item, uid)]
        return [item for item in blocking if not self._waits_for(item, uid)]

    def _waits_for(self, item: Item, uid: str) -> bool:
        """Whether an object deleted in the foreground waits for the object of this UID."""
        seen: set[str] = set()
        todo = [item]
        while todo:
            each = todo.pop()
            if not each.waits_with(FOREGROUND) or each.meta.uid in seen:
                continue
            if each.meta.uid == uid:
                return True
            seen.add(each.meta.uid)
            todo += [d for d in self.dependents(each.meta.uid) if is_blocking(d, each.meta.uid)]
        return False

    def inside(self, namespace: str) -> list[Item]:
        """All objects in a namespace."""
        return [self._items[each] for each in sorted(self._inside.get(namespace, ()))]


def _discard(groups: dict[str, set[str]], name: str, member: str) -> None:
    """Remove a member from its group; remove an empty group."""
    group = groups.get(name, set())
    group.discard(member)
    if not group:
        groups.pop(name, None)


class OwnerState(Enum):
    EXISTS = "exists"
    TERMINATING = "terminating"  # deleted in the foreground: waits for its dependents
    GONE = "gone"
    UNKNOWN = "unknown"  # of a kind that the API does not have


class Verdict(NamedTuple):
    """By default, the object is kept as it is."""

    delete: str = ""
    """Delete the object, with this propagation."""
    owners: tuple[OwnerReference, ...] = ()
    """Keep the object, with only these owners."""
    wait: bool = False
    """Decide later: an owner's state is unknown."""


def judge(item: Item, owners: Mapping[str, OwnerState]) -> Verdict:
    """Whether to keep, change or delete an object, given the states of its owners by UID."""
    references = item.meta.owner_references
    if not references or item.deleting:
        return Verdict()
    states = [owners[reference.uid] for reference in references]
    # Nothing is deleted on a guess: the kind may be installed later.
    if OwnerState.UNKNOWN in states:
        return Verdict(wait=True)
    if OwnerState.EXISTS in states:
        existing = tuple(r for r in references if owners[r.uid] is OwnerState.EXISTS)
        return Verdict(owners=existing if len(existing) < len(references) else ())
    if OwnerState.TERMINATING not in states and ORPHAN in item.meta.finalizers:
        return Verdict(delete="Orphan")
    foreground = OwnerState.TERMINATING in states or FOREGROUND in item.meta.finalizers
    return Verdict(delete="Foreground" if foreground else "Background")


def is_blocking(item: Item, owner: str) -> bool:
    """Whether an owner deleted in the foreground waits for this object."""
    return any(
        reference.uid == owner and reference.block_owner_deletion
        for reference in item.meta.owner_references
    )
