"""The way of an object through admission, from the request to the object that is stored.

The server completes the object, then the rules of its kind check it. Nothing waits on the way, so
what the rules read of other objects still holds when the write begins. The write itself needs the
revision that was read.
"""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.objects.meta import SUFFIX_LETTERS
from localkube.apiserver import api_errors, codec
from localkube.apiserver.access.escalation import check_grant
from localkube.apiserver.admission import create_and_update
from localkube.apiserver.admission.create_and_update import Generated
from localkube.apiserver.apply import request as owners
from localkube.apiserver.kinds.field_rules import ensure_map
from localkube.apiserver.kinds.quotas_and_limit_ranges import LIMIT_RANGES, complete_containers

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.admission.create_and_update import Track
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Change, ObjectReader
    from localkube.apiserver.store.store import Store


_ANNOTATION = "kubernetes.io/limit-ranger"

Clock = Callable[[], datetime]


def now() -> datetime:
    """The present time."""
    return datetime.now(UTC)


class AdmissionChain:
    """Admits new and changed objects of one store."""

    def __init__(self, store: Store, clock: Clock = now) -> None:
        self._store = store
        self._clock = clock
        self._limit_ranges = LimitRanges(store)
        self.authorizer: Authorizer | None = None
        """None if every caller may create everything and grant every permission."""

    def create(self, call: Call, obj: Raw, namespace: str, track: Track | None = None) -> Raw:
        """The object as it is stored. Changes its argument in place."""
        strategy = call.resource.strategy
        suffix = "".join(random.choices(SUFFIX_LETTERS, k=5))
        generated = Generated(self._clock(), str(uuid.uuid4()), suffix)
        track = track or owners.tracker(call, generated.now)
        if self._limit_ranges.apply_to(call.resource, namespace):
            # The writer owns what it requests, not what a range adds.
            track = owners.tracked_before(track, call.resource, obj)
            self._limit_ranges.complete(obj, namespace)

        new = create_and_update.begin_create(call.resource, obj, namespace, track)
        strategy.completion.complete_create(new, self._store)
        new = create_and_update.finish_create(call.resource, new, generated)
        self._limit_ranges.check(call.resource, new, namespace)
        strategy.admission.create(new, self._store, generated.now)
        if strategy.admission.grants and self.authorizer:
            check_grant(self.authorizer, call, new, None)
        # The request itself was authorized as an update or a patch. Checked after the object, as
        # the real server does: an invalid object is a 422 for every caller.
        if call.route.verb != "create" and self.authorizer:
            self.authorizer.check_create(call)
        call.warn(*strategy.warnings(new))
        return new

    def update(self, call: Call, new: Raw, old: Raw, track: Track | None) -> Raw:
        """The changed object as it is stored."""
        resource, subresource = call.resource, call.route.subresource
        now = self._clock()
        new = create_and_update.begin_update(
            resource, new, old, subresource, track or owners.tracker(call, now)
        )
        new = create_and_update.finish_update(resource, new, old, subresource)
        if not subresource:
            self._limit_ranges.check_update(resource, new, call.route.namespace)
        resource.strategy.admission.update(new, old, self._store, now)
        if resource.strategy.admission.grants and self.authorizer:
            check_grant(self.authorizer, call, new, old)
        call.warn(*resource.strategy.warnings(new))
        return new


# -- limit ranges ---------------------------------------------------------------------------------


class LimitRanges:
    """All limit ranges of one store. The kinds know what a range means for their objects."""

    def __init__(self, store: Store) -> None:
        self._by_namespace: defaultdict[str, dict[str, Raw]] = defaultdict(dict)
        store.subscribe(self._changed, LIMIT_RANGES.collection)

    def _changed(self, change: Change) -> None:
        _, namespace, name = change.entry.key.split("/")
        self._by_namespace[namespace].pop(name, None)
        if not change.deleted:
            self._by_namespace[namespace][name] = codec.decode(change.entry.value)

    def _ranges(self, namespace: str) -> list[Raw]:
        """In the order of names, so that the result is always the same."""
        ranges = self._by_namespace.get(namespace)
        return [obj for _, obj in sorted(ranges.items())] if ranges else []

    def apply_to(self, resource: Resource, namespace: str) -> bool:
        """Whether the new objects of a kind are completed here."""
        return resource.strategy.ranges.complete and bool(self._ranges(namespace))

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
        if resource.strategy.ranges.on_update and not is_deleted:
            self.check(resource, obj, namespace)

    def check(self, resource: Resource, obj: Raw, namespace: str) -> None:
        """403 if an object is outside of a range."""
        for limit_range in self._ranges(namespace):
            # Most kinds are in no range, and some of them have no spec.
            found = list(resource.strategy.ranges.violations(obj.get("spec", {}), limit_range))
            if found:
                why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                name = obj["metadata"]["name"]
                raise api_errors.forbidden(resource.group, resource.plural, name, why)


# -- where an object can be created --------------------------------------------------------------


def namespace_for(call: Call, meta: Raw, store: ObjectReader) -> str:
    """The namespace to create in, which must exist and not be terminating."""
    resource, namespace = call.resource, call.route.namespace
    if not resource.namespaced:
        return ""
    if not namespace:
        raise api_errors.method_not_allowed()
    entry = store.get(f"namespaces//{namespace}")
    if entry is None:
        raise api_errors.not_found("", "namespaces", namespace)
    if codec.is_being_deleted(entry.value):
        name = str(meta.get("name") or meta.get("generateName") or "")
        raise api_errors.namespace_terminating(resource.group, resource.plural, name, namespace)
    return namespace


def already_exists(resource: Resource, key: str, store: ObjectReader) -> StatusError:
    """The error of a name that is taken."""
    entry, name = store.get(key), key.rpartition("/")[2]
    being_deleted = entry is not None and codec.is_being_deleted(entry.value)
    return api_errors.already_exists(
        resource.group, resource.plural, name, being_deleted=being_deleted
    )
