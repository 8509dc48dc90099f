"""ResourceQuota: the usage of a namespace, and the rejection of writes that exceed a quota.

Usage is counted from the objects themselves as they are written, so it cannot drift. The usage of a
write that is admitted and not yet durable is reserved, so two writes at once never use the same
room.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kubekit.objects.quantity import Amount, InvalidQuantity, parse_quantity
from localkube.apiserver import api_errors, codec
from localkube.apiserver.kinds.pod_resources import ONE
from localkube.apiserver.kinds.quotas_and_limit_ranges import RESOURCE_QUOTAS, scope_terms
from localkube.apiserver.resource_registry import strategy_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from localkube.apiserver.kinds.pod_resources import Charge
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Change
    from localkube.apiserver.store.store import Store

_QUOTAS = RESOURCE_QUOTAS.collection


def charge_of(collection: str, obj: Raw) -> Charge:
    """The usage of an object, by the names of a quota's `hard`."""
    rules = strategy_of(collection).quota
    charge = {f"count/{collection}": ONE}
    if rules.counted_as:
        charge[rules.counted_as] = ONE
    return charge | (rules.charge(obj) if rules.charge else {})


class _Quota:
    """One quota and its usage."""

    def __init__(self, key: str, obj: Raw) -> None:
        self.key = key
        spec: Raw = obj.get("spec") or {}
        self._terms = scope_terms(spec)
        self.hard = {
            name: parse_quantity(value) for name, value in (spec.get("hard") or {}).items()
        }
        self.used: defaultdict[str, Amount] = defaultdict(Amount)

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def in_scope(self, collection: str, obj: Raw) -> bool:
        """Whether the object counts towards this quota."""
        if not self._terms:
            return True
        matches = strategy_of(collection).quota.matches_scope
        return all(matches(term, obj) for term in self._terms)

    def charge(self, collection: str, obj: Raw | None) -> Charge:
        """The usage of the object, as far as this quota limits it."""
        if obj is None or not self.in_scope(collection, obj):
            return {}
        return {name: a for name, a in charge_of(collection, obj).items() if name in self.hard}

    def may_count(self, collection: str) -> bool:
        """Whether objects of a collection can count, decided without reading them."""
        rules = strategy_of(collection).quota
        names = (rules.counted_as, f"count/{collection}")
        return rules.charge is not None or any(name in self.hard for name in names)

    def count(self, new: Charge, old: Charge) -> None:
        """Replace the old usage of an object by its new usage."""
        # The old amount first: a sum takes the notation (1Gi or 1G) of its first part above zero.
        for name, amount in old.items():
            self.used[name] -= amount
        for name, amount in new.items():
            self.used[name] += amount

    def status(self) -> Raw:
        return {
            "hard": {name: str(amount) for name, amount in self.hard.items()},
            "used": {name: str(self.used[name]) for name in self.hard},
        }


class Quotas:
    """All quotas of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_namespace: defaultdict[str, dict[str, _Quota]] = defaultdict(dict)
        self._reserved: list[tuple[str, str, Charge]] = []  # keys of object and quota, usage
        self.stale: set[str] = set()
        """Quotas whose stored status differs from their usage."""
        for entry in store.scan(f"{_QUOTAS}/"):
            self._learn(entry.key, codec.decode(entry.value))
        store.subscribe(self._changed)

    # -- counting --------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        collection, namespace, _ = change.entry.key.split("/")
        # A changed quota is counted anew below; quotas are counted objects themselves.
        if collection == _QUOTAS:
            self._by_namespace[namespace].pop(change.entry.key, None)
            self.stale.discard(change.entry.key)
        quotas = self._by_namespace.get(namespace)
        if namespace and quotas:
            self._count(quotas.values(), collection, change)
        if collection == _QUOTAS and not change.deleted:
            self._learn(change.entry.key, codec.decode(change.entry.value))

    def _count(self, quotas: Iterable[_Quota], collection: str, change: Change) -> None:
        before = codec.decode(change.before.value) if change.before else None
        after = None if change.deleted else codec.decode(change.entry.value)
        for quota in quotas:
            old, new = quota.charge(collection, before), quota.charge(collection, after)
            if old != new:
                quota.count(new, old)
                self.stale.add(quota.key)
        # Counted as used from now on. The writer runs later: until then, a reservation would make
        # another write count this usage twice.
        key = change.entry.key
        self._reserved = [item for item in self._reserved if item[0] != key]

    def _learn(self, key: str, obj: Raw) -> None:
        """Add a quota, and count the objects that exist already."""
        namespace = key.split("/")[1]
        try:
            quota = _Quota(key, obj)
        except InvalidQuantity:
            return
        for collection in filter(quota.may_count, self._store.collections()):
            for entry in self._store.scan(f"{collection}/{namespace}/"):
                quota.count(quota.charge(collection, codec.decode(entry.value)), {})
        self._by_namespace[namespace][key] = quota
        if obj.get("status") != quota.status():
            self.stale.add(key)

    def take_stale(self) -> list[tuple[str, Raw]]:
        """Quotas whose status has to be written, with the new status."""
        keys, self.stale = self.stale, set()
        return [
            (key, quota.status())
            for key in sorted(keys)
            if (quota := self._by_namespace[key.split("/")[1]].get(key)) is not None
        ]

    # -- rejecting -------------------------------------------------------------------------------

    @contextmanager
    def reserved(
        self, resource: Resource, key: str, new: Raw, old: Raw | None = None
    ) -> Iterator[None]:
        """Reserve the usage of a write until it is durable; 403 if a quota has no room for it."""
        namespace = key.split("/")[1]
        quotas = self._by_namespace.get(namespace)
        if not namespace or not quotas or not resource.strategy.quota.limited:
            yield
            return
        reserved = self._check(list(quotas.values()), resource, key, new, old)
        self._reserved += reserved
        try:
            yield
        finally:
            # By identity: another write may have reserved the same amount.
            self._reserved = [i for i in self._reserved if not any(i is r for r in reserved)]

    def _check(
        self, quotas: list[_Quota], resource: Resource, key: str, new: Raw, old: Raw | None
    ) -> list[tuple[str, str, Charge]]:
        collection, name = resource.collection, key.rpartition("/")[2]

        def forbidden(why: str) -> StatusError:
            return api_errors.forbidden(resource.group, resource.plural, name, why)

        # In the order of names, so that the error always names the same quota.
        quotas.sort(key=lambda quota: quota.key)
        for quota in quotas:
            required = old is None and quota.in_scope(collection, new)
            missing = resource.strategy.quota.unspecified(quota.hard, new) if required else ""
            if missing:
                raise forbidden(f"failed quota: {quota.name}: {missing}")
        reserved = []
        for quota in quotas:
            before = quota.charge(collection, old)
            more = {
                n: a - before.get(n, Amount()) for n, a in quota.charge(collection, new).items()
            }
            increase = {name: amount for name, amount in more.items() if amount.nano > 0}
            if excess := self._excess(quota, increase):
                raise forbidden(excess)
            if increase:
                reserved.append((key, quota.key, increase))
        return reserved

    def _excess(self, quota: _Quota, requested: Charge) -> str:
        """The message if the request exceeds the quota, in Kubernetes' words; else empty."""
        used = {name: quota.used[name] for name in requested}
        for _, key, charge in self._reserved:
            if key == quota.key:
                used |= {n: used[n] + amount for n, amount in charge.items() if n in used}
        over = sorted(n for n in requested if (used[n] + requested[n]).nano > quota.hard[n].nano)
        if not over:
            return ""
        requested_text, used_text, limited_text = (
            ",".join(f"{name}={amounts[name]}" for name in over)
            for amounts in (requested, used, quota.hard)
        )
        return (
            f"exceeded quota: {quota.name}, requested: {requested_text}, used: {used_text},"
            f" limited: {limited_text}"
        )
