"""ResourceQuotas: what a namespace may take, what it takes, and no to what would be too much.

`verbs.py` holds a charge while it writes; `upkeep.py` writes `status`. What is used is counted from
the objects themselves as they are written, so it cannot drift. A write that has been let through
and has not landed counts as well: two at once never take the same room.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from muster.api.quantity import Amount, parse_quantity
from muster.errors import InvalidQuantity
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.admission.quota_charges import (
    Charge,
    added,
    charge,
    in_scope,
    unspecified,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.meta import Raw
    from muster.errors import StatusError
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.store.store import Store

_QUOTAS = "resourcequotas"
_UNCOUNTED = frozenset({"events"})


class _Quota:
    """One quota and what counts in it."""

    def __init__(self, key: str, obj: Raw) -> None:
        self.key = key
        self.spec: Raw = obj.get("spec") or {}
        self.hard = {
            name: parse_quantity(value) for name, value in (self.spec.get("hard") or {}).items()
        }
        self.used: Charge = {}

    def counts(self, collection: str, obj: Raw) -> Charge:
        """What the object takes of what this quota limits."""
        if not in_scope(self.spec, collection, obj):
            return {}
        return {name: a for name, a in charge(collection, obj).items() if name in self.hard}

    def add(self, taken: Charge) -> None:
        for name, amount in taken.items():
            self.used[name] = self.used.get(name, Amount()) + amount

    def remove(self, taken: Charge) -> None:
        for name, amount in taken.items():
            self.used[name] = self.used.get(name, Amount()) - amount

    def status(self) -> Raw:
        return {
            "hard": {name: str(amount) for name, amount in self.hard.items()},
            "used": {name: str(self.used.get(name, Amount())) for name in self.hard},
        }


class Quotas:
    """All quotas of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_namespace: defaultdict[str, dict[str, _Quota]] = defaultdict(dict)
        self._on_the_way: list[tuple[str, str, Charge]] = []  # object, quota, what it takes
        self.stale: set[str] = set()
        """Quotas whose status does not say what is used."""
        for entry in store.scan(f"{_QUOTAS}/"):
            self._learn(entry.key, objects.decode(entry.value))
        store.subscribe(self._changed)

    # -- keeping count ---------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        collection, namespace, _ = change.entry.key.split("/")
        if collection == _QUOTAS:
            self._by_namespace[namespace].pop(change.entry.key, None)
            self.stale.discard(change.entry.key)
        quotas = self._by_namespace.get(namespace)
        if namespace and quotas:
            self._count(quotas.values(), collection, change)
        if collection == _QUOTAS and not change.deleted:
            self._learn(change.entry.key, objects.decode(change.entry.value))

    def _count(self, quotas: Iterable[_Quota], collection: str, change: Change) -> None:
        before = objects.decode(change.before.value) if change.before else None
        after = None if change.deleted else objects.decode(change.entry.value)
        for quota in quotas:
            old = quota.counts(collection, before) if before else {}
            new = quota.counts(collection, after) if after else {}
            if old != new:
                quota.remove(old)
                quota.add(new)
                self.stale.add(quota.key)
        key = change.entry.key
        self._on_the_way = [item for item in self._on_the_way if item[0] != key]

    def _learn(self, key: str, obj: Raw) -> None:
        """Take in a quota, and count what is there already."""
        namespace = key.split("/")[1]
        try:
            quota = _Quota(key, obj)
        except InvalidQuantity:
            return
        for collection in self._store.collections():
            if not self._limits(quota, collection):
                continue
            for entry in self._store.scan(f"{collection}/{namespace}/"):
                quota.add(quota.counts(collection, objects.decode(entry.value)))
        self._by_namespace[namespace][key] = quota
        if obj.get("status") != quota.status():
            self.stale.add(key)

    def _limits(self, quota: _Quota, collection: str) -> bool:
        """Whether objects of a collection can count at all, found without looking at them."""
        if collection in ("pods", "services", "persistentvolumeclaims"):
            return True
        return collection in quota.hard or f"count/{collection}" in quota.hard

    def take_stale(self) -> list[tuple[str, Raw]]:
        """Quotas whose status has to be written, and what it is to say."""
        keys, self.stale = self.stale, set()
        return [
            (key, quota.status())
            for key in sorted(keys)
            if (quota := self._by_namespace[key.split("/")[1]].get(key)) is not None
        ]

    # -- saying no -------------------------------------------------------------------------------

    @contextmanager
    def charged(
        self, resource: Resource, key: str, new: Raw, old: Raw | None = None
    ) -> Iterator[None]:
        """Hold the room that a write takes until it has landed; 403 if there is not enough."""
        namespace = key.split("/")[1]
        quotas = self._by_namespace.get(namespace)
        if not namespace or not quotas or resource.collection in _UNCOUNTED:
            yield
            return
        held = self._check(list(quotas.values()), resource, key, new, old)
        self._on_the_way += held
        try:
            yield
        finally:
            self._on_the_way = [i for i in self._on_the_way if not any(i is h for h in held)]

    def _check(
        self, quotas: list[_Quota], resource: Resource, key: str, new: Raw, old: Raw | None
    ) -> list[tuple[str, str, Charge]]:
        collection, name = resource.collection, key.rpartition("/")[2]

        def refuse(why: str) -> StatusError:
            return api_errors.forbidden(resource.group, resource.plural, name, why)

        quotas.sort(key=lambda quota: quota.key)
        for quota in quotas:
            if old is None and collection == "pods" and in_scope(quota.spec, collection, new):
                missing = unspecified(quota.hard, new["spec"])
                if missing:
                    raise refuse(f"failed quota: {quota.key.rpartition('/')[2]}: {missing}")
        held = []
        for quota in quotas:
            before = quota.counts(collection, old) if old else {}
            asked = added(quota.counts(collection, new), before)
            excess = self._excess(quota, asked)
            if excess:
                raise refuse(excess)
            if asked:
                held.append((key, quota.key, asked))
        return held

    def _excess(self, quota: _Quota, asked: Charge) -> str:
        """What would be too much, in Kubernetes' words; empty if nothing would."""
        used = {name: quota.used.get(name, Amount()) for name in asked}
        for _, key, taken in self._on_the_way:
            if key == quota.key:
                used |= {n: used[n] + amount for n, amount in taken.items() if n in used}
        over = sorted(n for n in asked if (used[n] + asked[n]).nano > quota.hard[n].nano)
        if not over:
            return ""
        requested, taken_, limited = (
            ",".join(f"{name}={amounts[name]}" for name in over)
            for amounts in (asked, used, quota.hard)
        )
        return (
            f"exceeded quota: {quota.key.rpartition('/')[2]}, requested: {requested},"
            f" used: {taken_}, limited: {limited}"
        )
