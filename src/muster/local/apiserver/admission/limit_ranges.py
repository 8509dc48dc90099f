"""LimitRange: defaults for new pods, and the rejection of pods and claims outside of a range."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from muster.api.quantity import parse_quantity
from muster.local.apiserver import api_errors, codec
from muster.local.apiserver.kinds.fields import ensure_map
from muster.local.apiserver.kinds.limit_range import CLAIM, CONTAINER, LIMIT_RANGES, POD, limits_of
from muster.local.apiserver.kinds.pod_resources import amounts_of, pod_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.kinds.pod_resources import Charge
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.store.store import Store

_ANNOTATION = "kubernetes.io/limit-ranger"
_PREFIX = f"{LIMIT_RANGES.collection}/"


class LimitRanges:
    """All limit ranges of one store."""

    _completed = frozenset({"pods"})
    _checked_on_update = frozenset({"persistentvolumeclaims"})

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
        return resource.collection in self._completed and bool(self._ranges(namespace))

    def complete(self, obj: Raw, namespace: str) -> None:
        """Give the containers of a new pod the requests and limits that they lack."""
        for limit_range in self._ranges(namespace):
            notes = list(_complete_pod(obj["spec"], limit_range))
            if notes:
                annotations = ensure_map(obj["metadata"], "annotations")
                annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"

    def check_update(self, resource: Resource, obj: Raw, namespace: str) -> None:
        """403 if a changed claim is outside of a range; the resources of a pod do not change."""
        is_deleted = "deletionTimestamp" in obj["metadata"]
        if resource.collection in self._checked_on_update and not is_deleted:
            self.check(resource, obj, namespace)

    def check(self, resource: Resource, obj: Raw, namespace: str) -> None:
        """403 if a pod or a claim is outside of a range."""
        violations = _VIOLATIONS.get(resource.collection)
        if violations is None:
            return
        for limit_range in self._ranges(namespace):
            found = list(violations(obj["spec"], limit_range))
            if found:
                why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                name = obj["metadata"]["name"]
                raise api_errors.forbidden(resource.group, resource.plural, name, why)


# -- defaults ------------------------------------------------------------------------------------


def _complete_pod(spec: Raw, limit_range: Raw) -> Iterator[str]:
    """Set defaults in a pod's spec; yields a note for each container that changed."""
    items = [item for item in limits_of(limit_range) if item.get("type") == CONTAINER]
    sides = {
        side: {name: value for item in items for name, value in (item.get(source) or {}).items()}
        for side, source in (("requests", "defaultRequest"), ("limits", "default"))
    }
    for title, field in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(field) or ():
            for side, word in (("requests", "request"), ("limits", "limit")):
                added = _fill(ensure_map(container, "resources"), side, sides[side])
                if added:
                    yield f"{', '.join(sorted(added))} {word} for {title} {container.get('name')}"


def _fill(resources: Raw, side: str, defaults: Raw) -> list[str]:
    # A limit without a request is also the request: that counts before the range's default.
    taken = {*(resources.get(side) or ())}
    taken |= {*(resources.get("limits") or ())} if side == "requests" else set()
    added = [name for name in defaults if name not in taken]
    for name in added:
        ensure_map(resources, side)[name] = defaults[name]
    return added


# -- limits --------------------------------------------------------------------------------------


def _of_pod(spec: Raw, limit_range: Raw) -> Iterator[str]:
    for item in limits_of(limit_range):
        holders: list[tuple[Charge, Charge]] = []
        if item.get("type") == CONTAINER:
            containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
            holders = [(amounts_of(c, "requests"), amounts_of(c, "limits")) for c in containers]
        elif item.get("type") == POD:
            holders = [(pod_sum(spec, "requests"), pod_sum(spec, "limits"))]
        for requests, limits in holders:
            yield from _below_minimum(item, requests, limits)
            yield from _above_maximum(item, requests, limits)
            yield from _above_ratio(item, requests, limits)


def _of_claim(spec: Raw, limit_range: Raw) -> Iterator[str]:
    requests = amounts_of(spec, "requests")
    for item in limits_of(limit_range):
        if item.get("type") != CLAIM:
            continue
        yield from _below_minimum(item, requests, {})
        yield from _request_above_maximum(item, requests)


_VIOLATIONS: dict[str, Callable[[Raw, Raw], Iterator[str]]] = {
    "pods": _of_pod,
    "persistentvolumeclaims": _of_claim,
}


def _below_minimum(item: Raw, requests: Charge, limits: Charge) -> Iterator[str]:
    for name, value in (item.get("min") or {}).items():
        least, request, limit = parse_quantity(value), requests.get(name), limits.get(name)
        rule = f"minimum {name} usage per {item['type']} is {least}"
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request.nano < least.nano:
            yield f"{rule}, but request is {request}"
        elif limit is not None and limit.nano < least.nano:
            yield f"{rule}, but limit is {limit}"


def _above_maximum(item: Raw, requests: Charge, limits: Charge) -> Iterator[str]:
    for name, value in (item.get("max") or {}).items():
        most, request, limit = parse_quantity(value), requests.get(name), limits.get(name)
        rule = f"maximum {name} usage per {item['type']} is {most}"
        if limit is None:
            yield f"{rule}.  No limit is specified"
        elif limit.nano > most.nano:
            yield f"{rule}, but limit is {limit}"
        elif request is not None and request.nano > most.nano:
            yield f"{rule}, but request is {request}"


def _request_above_maximum(item: Raw, requests: Charge) -> Iterator[str]:
    for name, value in (item.get("max") or {}).items():
        most, request = parse_quantity(value), requests.get(name)
        rule = f"maximum {name} usage per {item['type']} is {most}"
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request.nano > most.nano:
            yield f"{rule}, but request is {request}"


def _above_ratio(item: Raw, requests: Charge, limits: Charge) -> Iterator[str]:
    for name, value in (item.get("maxLimitRequestRatio") or {}).items():
        most, request, limit = parse_quantity(value), requests.get(name), limits.get(name)
        rule = f"{name} max limit to request ratio per {item['type']} is {most}"
        if request is None or not request.nano:
            yield f"{rule}, but no request is specified or request is 0"
        elif limit is None or not limit.nano:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif limit.nano * 10**9 > request.nano * most.nano:
            yield f"{rule}, but provided ratio is {limit.nano / request.nano:f}"
