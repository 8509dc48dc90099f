"""get, list, create, update, patch, delete, deletecollection: what requests do to the store.

Called by `serve.py` with a parsed request; knows nothing of HTTP. Each verb reads from memory,
decides in `admit.py` and `patch.py`, and writes once, guarded by the revision it read. A write that
does not name the revision it is based on is repeated when somebody else was faster.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from muster.api.meta import SUFFIX_LETTERS
from muster.errors import AlreadyExists, Conflict, NotFound, StatusError
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.admission import admit, deletion, policy, preconditions
from muster.local.apiserver.admission.admit import Generated
from muster.local.apiserver.admission.quota import Quotas
from muster.local.apiserver.http import bodies
from muster.local.apiserver.http.bodies import duplicate_fields
from muster.local.apiserver.http.requests import (
    Answer,
    Call,
    json_answer,
    stored_answer,
    unstored_answer,
)
from muster.local.apiserver.patch import merge_patch
from muster.local.apiserver.patch.json_patch import json_patch
from muster.local.apiserver.patch.server_side_apply import APPLY_MEDIA_TYPE, apply, check_apply
from muster.local.apiserver.registry import CRD_COLLECTION
from muster.local.apiserver.schema.decoding import (
    apply_custom_schema,
    check_applied,
    check_kind,
    check_shape,
    decode_strictly,
    schema_of,
)
from muster.local.apiserver.views import lists

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Registry, Resource
    from muster.local.apiserver.store.changes import Entry
    from muster.local.apiserver.store.store import Store

Clock = Callable[[], datetime]
Change = Callable[["Raw"], "Raw"]
"""From the object as it is to the object as it shall be."""

Guard = Callable[[Call, "Raw", "Raw | None"], None]
"""Asked whether the caller may write the new object in place of the old one, or raises."""

_TRIES = 8
# Deleting one of these answers with the object, all others with a Status.
_SHOWN = frozenset(
    {
        "pods",
        "namespaces",
        "services",
        "serviceaccounts",
        "resourcequotas",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses.storage.k8s.io",
    }
)


def _anything(call: Call, new: Raw, old: Raw | None) -> None:
    """Without roles, everybody may."""


def _now() -> datetime:
    return datetime.now(UTC)


class Verbs:
    """The verbs, over one store."""

    def __init__(self, store: Store, registry: Registry, clock: Clock = _now) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock
        self.quotas = Quotas(store)
        self.guard: Guard = _anything

    # -- reading ---------------------------------------------------------------------------------

    def read(self, call: Call) -> Entry:
        """The object a call is about."""
        entry = self.store.get(call.key)
        if entry is None:
            raise preconditions.object_not_found(call)
        return entry

    async def get(self, call: Call) -> Answer:
        """One object."""
        asked = call.query.get("resourceVersion", "")
        if asked.isdecimal() and int(asked[:20]) > self.store.revision:
            raise api_errors.resource_version_too_large(int(asked[:20]), self.store.revision)
        return stored_answer(call.resource, self.read(call))

    async def list(self, call: Call) -> Answer:
        """A collection, or a page of it."""
        return lists.answer(call, await lists.page(self.store, call))

    # -- creating --------------------------------------------------------------------------------

    async def create(self, call: Call) -> Answer:
        """A new object."""
        return await self._create(call, self._body(call))

    def _body(self, call: Call) -> Raw:
        """The object that was sent, as its kind has it, for this path."""
        obj = bodies.read(call.body, call.content_type)
        check_kind(call.resource, obj)
        preconditions.ensure_metadata(obj)
        decode_strictly(call, obj)
        preconditions.check_namespace_and_name(call, obj)
        return obj

    async def _create(self, call: Call, obj: Raw) -> Answer:
        resource = call.resource
        apply_custom_schema(resource, obj)
        named = obj["metadata"].get("name") or obj["metadata"].get("generateName")
        namespace = self._home(call, str(named or ""))
        obj = objects.to_stored_form(obj, resource)
        if obj["metadata"].get("resourceVersion"):
            raise api_errors.bad_request(
                "resourceVersion should not be set on objects to be created"
            )
        generated = not obj["metadata"].get("name")
        for left in range(_TRIES, 0, -1):
            born = Generated(self.clock(), str(uuid.uuid4()), _suffix())
            new = policy.on_create(
                admit.on_create(resource, _copy(obj), namespace, born),
                resource,
                self.store,
                born.now,
            )
            self.guard(call, new, None)
            name = new["metadata"]["name"]
            key = objects.key(resource, namespace, name)
            encode = objects.stored_encoder(new, resource)
            try:
                with self.quotas.charged(resource, key, new):
                    if call.dry_run:
                        return self._pretend(call, key, new)
                    entry = await self.store.create(key, encode)
                return stored_answer(resource, entry, 201)
            except AlreadyExists as error:
                if not generated or left == 1:
                    raise self._taken(resource, key) from error
        raise AssertionError("the last try returns or raises")

    def _pretend(self, call: Call, key: str, new: Raw) -> Answer:
        if self.store.get(key) is not None:
            raise self._taken(call.resource, key)
        return unstored_answer(call.resource, new, 201)

    def _taken(self, resource: Resource, key: str) -> StatusError:
        going = (entry := self.store.get(key)) is not None and objects.is_being_deleted(entry.value)
        name = key.rpartition("/")[2]
        return api_errors.already_exists(resource.group, resource.plural, name, going=going)

    def _home(self, call: Call, name: str) -> str:
        """The namespace to create in, which must exist and stay."""
        resource, namespace = call.resource, call.route.namespace
        if not resource.namespaced:
            return ""
        if not namespace:
            raise api_errors.method_not_allowed()
        entry = self.store.get(f"namespaces//{namespace}")
        if entry is None:
            raise api_errors.not_found("", "namespaces", namespace)
        if objects.is_being_deleted(entry.value):
            raise policy.terminating(resource, name, namespace)
        return namespace

    # -- changing --------------------------------------------------------------------------------

    async def update(self, call: Call) -> Answer:
        """Replace an object."""
        body = self._body(call)
        if self.store.get(call.key) is None:
            if not call.resource.upserts or call.route.subresource:
                raise preconditions.object_not_found(call)
            return await self._create(call, body)
        claimed = body["metadata"].get("resourceVersion")
        if not claimed and call.resource.custom:
            cause = api_errors.invalid_value(
                "metadata.resourceVersion", 0, "must be specified for an update"
            )
            resource = call.resource
            raise api_errors.invalid(resource.group, resource.plural, call.route.name, [cause])
        return await self.change(call, lambda _: _copy(body))

    async def patch(self, call: Call) -> Answer:
        """Change part of an object."""
        accepted = tuple(
            p for p in bodies.PATCHES if "strategic" not in p or not call.resource.custom
        )
        body = bodies.read_patch(call.body, call.content_type, accepted)
        kind = bodies.media_type(call.content_type)
        if kind == APPLY_MEDIA_TYPE:
            return await self._apply(call, body)
        return await self.change(call, lambda old: self._patched(call, kind, old, body))

    def _patched(self, call: Call, kind: str, old: Raw, body: Any) -> Raw:
        typed = "strategic" in kind
        if kind == "application/json-patch+json":
            new = json_patch(old, body)
        elif typed:
            new = merge_patch.strategic_merge(old, body, schema_of(call.resource))
        else:
            new = merge_patch.merge(old, body)
        preconditions.check_patched(call, new, old, typed=typed)
        self._warn_of_repeated(call)
        decode_strictly(call, new)
        preconditions.check_namespace_and_name(call, new)
        preconditions.check_name(call, new["metadata"])
        return new

    def _warn_of_repeated(self, call: Call) -> None:
        twice = duplicate_fields(call)
        if twice and call.query.get("fieldValidation") == "Strict":
            raise api_errors.unprocessable()
        call.warn(*(one.text for one in twice))

    async def _apply(self, call: Call, body: Raw) -> Answer:
        """Server-side apply for one owner: create, or merge what the owner states."""
        check_apply(call, body)
        preconditions.check_body(call, body)
        check_applied(call.resource, body)
        self._warn_of_repeated(call)
        if self.store.get(call.key) is None:
            preconditions.check_apply_creates(call, body["metadata"])
            decode_strictly(call, body)
            return await self._create(call, body)
        schema = schema_of(call.resource)

        def applied(old: Raw) -> Raw:
            new: Raw = apply(old, body, schema)
            decode_strictly(call, new)
            return new

        return await self.change(call, applied)

    async def change(self, call: Call, change: Change) -> Answer:
        """Read, change, admit, write; again if somebody else wrote in between."""
        for left in range(_TRIES, 0, -1):
            entry = self.read(call)
            shown = objects.in_version(entry.value, call.resource)
            # Two copies: patches share what they do not touch, and admission works in place.
            old, new = objects.decode(shown), change(objects.decode(shown))
            apply_custom_schema(call.resource, new, old)
            claimed = str(new["metadata"].get("resourceVersion") or "")
            preconditions.check_identity(call, new, old)
            old, new = (
                objects.to_stored_form(old, call.resource),
                objects.to_stored_form(new, call.resource),
            )
            new = admit.on_update(call.resource, new, old, call.route.subresource)
            new = policy.on_update(new, old, call.resource, self.store, self.clock())
            self.guard(call, new, old)
            try:
                return await self._write(call, entry, new, old)
            except Conflict as error:
                insisted = claimed and claimed != old["metadata"]["resourceVersion"]
                if left == 1 or insisted or self._is_put(call, claimed):
                    raise preconditions.conflict(call) from error
            except NotFound as error:
                raise preconditions.object_not_found(call) from error
        raise AssertionError("the last try returns or raises")

    def _is_put(self, call: Call, claimed: str) -> bool:
        return call.route.verb == "update" and bool(claimed)

    async def _write(self, call: Call, entry: Entry, new: Raw, old: Raw) -> Answer:
        resource = call.resource
        if deletion.can_be_removed(resource, new):
            if call.dry_run:
                return unstored_answer(resource, new)
            return stored_answer(resource, await self._remove(call.resource, entry, new))
        if admit.is_unchanged(new, old) and objects.is_current(entry.value, resource):
            return stored_answer(resource, entry)
        encode = objects.stored_encoder(new, resource)
        with self.quotas.charged(resource, entry.key, new, old):
            if call.dry_run:
                return unstored_answer(resource, new)
            return stored_answer(
                resource, await self.store.update(entry.key, encode, entry.revision)
            )

    # -- deleting --------------------------------------------------------------------------------

    async def delete(self, call: Call) -> Answer:
        """Remove an object, or mark it for whoever has to let go of it first."""
        options = self._delete_options(call)
        deletion.check_deletable(call.resource, call.route.name)
        call.warn(*deletion.default_propagation(call.resource, options))
        for left in range(_TRIES, 0, -1):
            entry = self.read(call)
            obj = objects.decode(entry.value)
            preconditions.check_preconditions(call, options, obj)
            try:
                return await self._delete(call, entry, obj, options)
            except Conflict as error:
                if left == 1:
                    raise preconditions.conflict(call) from error
            except NotFound as error:
                raise preconditions.object_not_found(call) from error
        raise AssertionError("the last try returns or raises")

    async def _delete(self, call: Call, entry: Entry, obj: Raw, options: Raw) -> Answer:
        resource = call.resource
        plan = deletion.on_delete(resource, obj, options, self.clock())
        meta = obj["metadata"]
        dry = bool(options.get("dryRun"))
        if plan.remove:
            if not dry:
                entry = await self._remove(resource, entry, plan.obj)
            if resource.collection == CRD_COLLECTION:
                return json_answer(deletion.crd_being_deleted(plan.obj, self.clock()))
            if resource.collection not in _SHOWN:
                done = api_errors.success(
                    resource.group, resource.plural, meta["name"], meta["uid"]
                )
                return json_answer(done)
        elif plan.changed and not dry:
            encode = objects.encoder(plan.obj, resource.stored_api_version)
            entry = await self.store.update(entry.key, encode, entry.revision)
        if dry:
            return unstored_answer(resource, plan.obj)
        return stored_answer(resource, entry)

    async def _remove(self, resource: Resource, entry: Entry, last: Raw) -> Entry:
        encode = objects.encoder(last, resource.stored_api_version)
        gone = await self.store.delete(entry.key, encode, entry.revision)
        if resource.collection == CRD_COLLECTION:
            await self._sweep(last["metadata"]["name"])
        return gone

    async def _sweep(self, collection: str) -> None:
        """A kind that is gone takes its objects with it, finalizers or not."""
        for entry in list(self.store.scan(f"{collection}/")):
            obj = objects.decode(entry.value)
            await self.store.delete(
                entry.key, objects.encoder(obj, obj["apiVersion"]), entry.revision
            )

    async def deletecollection(self, call: Call) -> Answer:
        """Delete every object a list would show."""
        options = self._delete_options(call)
        found = await lists.page(self.store, call)
        for entry in found.entries:
            _, namespace, name = entry.key.split("/")
            route = call.route._replace(namespace=namespace, name=name, verb="delete")
            single = Call(route, call.resource, {}, objects.dump(options), said=call.said)
            try:
                await self.delete(single)
            except StatusError as refusal:
                if refusal.status != 404:
                    raise
        return lists.answer(call, found)

    def _delete_options(self, call: Call) -> Raw:
        options = bodies.read(call.body, call.content_type) if call.body.strip() else {}
        if options.get("kind") not in (None, "", "DeleteOptions"):
            raise api_errors.bad_request(f"{options['kind']} cannot be handled as a DeleteOptions")
        check_shape("v1", "DeleteOptions", options)
        grace = call.number("gracePeriodSeconds")
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if call.dry_run:
            options["dryRun"] = ["All"]
        if "propagationPolicy" in call.query:
            options["propagationPolicy"] = call.query["propagationPolicy"]
        deletion.check_options(options)
        return options


def _suffix() -> str:
    return "".join(random.choices(SUFFIX_LETTERS, k=5))


def _copy(obj: Raw) -> Raw:
    return objects.decode(objects.dump(obj))
