"""The limit ranges of a namespace, applied to an object: defaults, and the rejection outside."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from localkube.apiserver import api_errors, codec
from localkube.apiserver.kinds.fields import ensure_map
from localkube.apiserver.kinds.policy.limit_range import LIMIT_RANGES, complete_containers

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.changes import Change
    from localkube.apiserver.store.store import Store

_ANNOTATION = "kubernetes.io/limit-ranger"
_PREFIX = f"{LIMIT_RANGES.collection}/"


class LimitRanges:
    """All limit ranges of one store. The kinds know what a range means for their objects."""

    def __init__(self, store: Store) -> None:
        self._by_namespace: defaultdict[str, dict[str, Raw]] = defaultdict(dict)
        for entry in store.scan(_PREFIX):
            self._learn(entry.key, codec.decode(entry.value))
        store.subscribe(self._changed, LIMIT_RANGES.collection)

    def _changed(self, change: Change) -> None:
        if change.deleted:
            self._by_namespace[change.entry.key.split("/")[1]].pop(change.entry.key, None)
        else:
            self._learn(change.entry.key, codec.decode(change.entry.value))

    def _learn(self, key: str, obj: Raw) -> None:
        self._by_namespace[key.split("/")[1]][key] = obj

    def _ranges(self, namespace: str) -> list[Raw]:
        """In the order of names, so that the result is always the same."""
        ranges = self._by_namespace.get(namespace)
        return [obj for _, obj in sorted(ranges.items())] if ranges else []

    def apply_to(self, resource: Resource, namespace: str) -> bool:
        """Whether the new objects of a kind are completed here."""
        return resource.strategy.completed_by_ranges and bool(self._ranges(namespace))

    def complete(self, obj: Raw, namespace: str) -> None:
        """Give the containers of a new object the requests and limits that they lack."""
        for limit_range in self._ranges(namespace):
            notes = list(complete_containers(obj["spec"], limit_range))
            if notes:
                annotations = ensure_map(obj["metadata"], "annotations")
                annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"

    def check_update(self, resource: Resource, obj: Raw, namespace: str) -> None:
        """403 if a changed object is outside of a range; most kinds are checked once."""
        is_deleted = "deletionTimestamp" in obj["metadata"]
        if resource.strategy.ranged_on_update and not is_deleted:
            self.check(resource, obj, namespace)

    def check(self, resource: Resource, obj: Raw, namespace: str) -> None:
        """403 if an object is outside of a range."""
        for limit_range in self._ranges(namespace):
            found = list(resource.strategy.outside_of_range(obj["spec"], limit_range))
            if found:
                why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                name = obj["metadata"]["name"]
                raise api_errors.forbidden(resource.group, resource.plural, name, why)
