"""The objects an informer holds, their indexes, and the changes between two states. No I/O.

Used by `informer.py` alone. Promises: each call returns the changes that lead from the state before
to the state after, each once, none of them empty; a new UID under an old name is a deletion and an
addition, whether it shows in an event or in a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from muster.api.meta import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from muster.api.meta import Key
    from muster.kube.watch.watch_stream import WatchEvent

T = TypeVar("T")


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Added: `old` is None. Deleted: `new` is None, `old` as it was last seen."""

    old: T | None
    new: T | None

    @property
    def current(self) -> T:
        """The newest state known: `new`, or of a deletion `old`."""
        return cast("T", self.old if self.new is None else self.new)


class Identity(NamedTuple):
    """Which object, which incarnation, which state of it."""

    key: Key
    uid: str
    version: str


def identity_of(obj: Any) -> Identity:
    """The identity of a struct or of a raw object."""
    if isinstance(obj, dict):
        raw = obj.get("metadata") or {}
        return Identity(key_of(obj), raw.get("uid", ""), raw.get("resourceVersion", ""))
    metadata = obj.metadata
    return Identity(metadata.key, metadata.uid, metadata.resource_version)


class InformerCache(Generic[T]):
    """Objects by key, and by any number of indexes."""

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[str]]]) -> None:
        self._objects: dict[Key, T] = {}
        self._indexers = dict(indexes)
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in indexes}

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def all(self) -> Collection[T]:
        return self._objects.values()

    def by(self, index: str, value: str) -> list[T]:
        return list(self._indexes[index].get(value, {}).values())

    def replace(self, items: Iterable[T]) -> list[Change[T]]:
        """Become what a list shows."""
        listed = {identity_of(item).key: item for item in items}
        gone = [key for key in self._objects if key not in listed]
        changes = [Change(self._remove(key), None) for key in gone]
        for item in listed.values():
            changes += self._put(item)
        return changes

    def apply(self, event: WatchEvent[T]) -> list[Change[T]]:
        """Take in one event of a watch."""
        if event.type in ("ADDED", "MODIFIED"):
            return self._put(event.object)
        if event.type not in ("DELETED", "UNREADABLE"):
            return []
        who = identity_of(event.object)
        old = self._objects.get(who.key)
        # The deletion of a former incarnation says nothing about the one we hold.
        if old is None or (event.type == "DELETED" and identity_of(old).uid != who.uid):
            return []
        return [Change(self._remove(who.key), None)]

    def _put(self, item: T) -> list[Change[T]]:
        who = identity_of(item)
        old = self._objects.get(who.key)
        changes: list[Change[T]] = []
        if old is not None:
            known = identity_of(old)
            if known == who:
                return []  # a replay of what we have
            self._unindex(who.key, old)
            if known.uid != who.uid:
                changes.append(Change(old, None))
                old = None
        self._objects[who.key] = item
        self._index(who.key, item)
        changes.append(Change(old, item))
        return changes

    def _remove(self, key: Key) -> T:
        old = self._objects.pop(key)
        self._unindex(key, old)
        return old

    def _index(self, key: Key, item: T) -> None:
        for name, values in self._indexers.items():
            for value in values(item):
                self._indexes[name].setdefault(value, {})[key] = item

    def _unindex(self, key: Key, item: T) -> None:
        for name, values in self._indexers.items():
            index = self._indexes[name]
            for value in values(item):
                held = index.get(value)
                if held is not None:
                    held.pop(key, None)
                    if not held:
                        del index[value]
