"""The way of an object through admission, from the request to the object that is stored.

The server completes the object, then the rules of its kind check it. Nothing waits on the way, so
what the rules read of other objects still holds when the write begins. The write itself needs the
revision that was read.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.objects.meta import SUFFIX_LETTERS
from localkube.apiserver import api_errors, codec
from localkube.apiserver.access.escalation import allow_create, allow_grant
from localkube.apiserver.admission import admit
from localkube.apiserver.admission.admit import Generated
from localkube.apiserver.admission.limit_ranges import LimitRanges
from localkube.apiserver.apply import request as owners

if TYPE_CHECKING:
    from kubekit.errors import StatusError
    from kubekit.objects.meta import Raw
    from localkube.apiserver.access.escalation import CreateCheck, Guard
    from localkube.apiserver.admission.admit import Track
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.changes import ObjectReader
    from localkube.apiserver.store.store import Store

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
        self.guard: Guard = allow_grant
        self.check_create: CreateCheck = allow_create

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

        new = admit.begin_create(call.resource, obj, namespace, track)
        strategy.complete_create(new, self._store)
        new = admit.finish_create(call.resource, new, generated)
        self._limit_ranges.check(call.resource, new, namespace)
        strategy.admit_create(new, self._store, generated.now)
        if strategy.grants:
            self.guard(call, new, None)
        # The request itself was authorized as an update or a patch. Checked after the object, as
        # the real server does: an invalid object is a 422 for every caller.
        if call.route.verb != "create":
            self.check_create(call)
        call.warn(*strategy.warnings(new))
        return new

    def update(self, call: Call, new: Raw, old: Raw, track: Track | None) -> Raw:
        """The changed object as it is stored."""
        resource, subresource = call.resource, call.route.subresource
        now = self._clock()
        new = admit.begin_update(
            resource, new, old, subresource, track or owners.tracker(call, now)
        )
        new = admit.finish_update(resource, new, old, subresource)
        if not subresource:
            self._limit_ranges.check_update(resource, new, call.route.namespace)
        resource.strategy.admit_update(new, old, self._store, now)
        if resource.strategy.grants:
            self.guard(call, new, old)
        call.warn(*resource.strategy.warnings(new))
        return new


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
