"""The objects of an informer, their indexes, and the changes between two states. No I/O.

Each call returns the changes that lead from the old state to the new one, each once. A new uid
under an old name is a deletion and an addition, whether an event or a list shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from kubekit.objects.meta import key_of
from kubekit.telemetry import unexpected_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kubekit.client.watch_stream import WatchEvent
    from kubekit.objects.meta import Key

T = TypeVar("T")


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. Added: `old` is None. Deleted: `new` is None, `old` is the last state seen."""

    old: T | None
    new: T | None

    @property
    def current(self) -> T:
        """The newest known state: `new`, or `old` after a deletion."""
        return cast("T", self.old if self.new is None else self.new)


class Identity(NamedTuple):
    """The key, uid and version of an object."""

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
        """Take over the state of a list."""
        listed = {identity_of(item).key: item for item in items}
        missing = [key for key in self._objects if key not in listed]
        changes = [Change(self._remove(key), None) for key in missing]
        for item in listed.values():
            changes += self._put(item)
        return changes

    def apply(self, event: WatchEvent[T]) -> list[Change[T]]:
        """Apply one event of a watch."""
        if event.type in ("ADDED", "MODIFIED"):
            return self._put(event.object)
        if event.type not in ("DELETED", "UNREADABLE"):
            return []
        identity = identity_of(event.object)
        old = self._objects.get(identity.key)
        # The deletion of an earlier object of this name does not concern the one held.
        if old is None or (event.type == "DELETED" and identity_of(old).uid != identity.uid):
            return []
        return [Change(self._remove(identity.key), None)]

    def _put(self, item: T) -> list[Change[T]]:
        identity = identity_of(item)
        old = self._objects.get(identity.key)
        changes: list[Change[T]] = []
        if old is not None:
            old_identity = identity_of(old)
            if old_identity == identity:
                return []  # seen before
            self._unindex(identity.key, old)
            if old_identity.uid != identity.uid:
                changes.append(Change(old, None))
                old = None
        self._objects[identity.key] = item
        for name, index in self._indexes.items():
            for value in self._values(name, identity.key, item):
                index.setdefault(value, {})[identity.key] = item
        changes.append(Change(old, item))
        return changes

    def _remove(self, key: Key) -> T:
        old = self._objects.pop(key)
        self._unindex(key, old)
        return old

    def _values(self, name: str, key: Key, item: T) -> list[str]:
        with unexpected_errors.isolated(f"index {name}", key):
            return list(self._indexers[name](item))
        return []

    def _unindex(self, key: Key, item: T) -> None:
        for name, index in self._indexes.items():
            for value in self._values(name, key, item):
                bucket = index.get(value)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:  # or the index would grow with every name ever used
                        del index[value]
