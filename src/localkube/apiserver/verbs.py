"""get, list, create, update, patch, delete, deletecollection over the store.

Each verb reads the object from memory, completes and checks it in `admission`, and writes it once,
on the condition that it still has the revision that was read. If another writer was first, the verb
is repeated on the newer object. A client that named a revision gets a conflict from the repetition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kubekit.objects.enforced_limits import EVICTED
from kubekit.request_errors import AlreadyExists, Conflict, NotFound, StatusError
from localkube.apiserver import api_errors, causes, codec
from localkube.apiserver.admission import create_and_update, deletion, preconditions
from localkube.apiserver.admission.chain import AdmissionChain, already_exists, namespace_for, now
from localkube.apiserver.admission.quota import Quotas
from localkube.apiserver.apply import request as owners
from localkube.apiserver.http.requests import JSON, Answer, Call, json_answer, unstored_answer
from localkube.apiserver.patches import read_patch
from localkube.apiserver.schema import decoding
from localkube.apiserver.store.collection import Entry
from localkube.apiserver.store.disk_reserve import Purpose
from localkube.apiserver.views import lists

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.admission.chain import Clock
    from localkube.apiserver.admission.create_and_update import Track
    from localkube.apiserver.admission.deletion import Deletion
    from localkube.apiserver.patches import Patch
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.store import Store

Edit = Callable[["Raw"], "Raw"]
"""From the stored object to the requested one; it may change its argument."""

# More than generated names and concurrent writers of one object need: a write is repeated only if
# another write of the object was faster. A loop without end would hide a bug.
_NAME_TRIES, _WRITE_TRIES = 8, 256


class Verbs:
    """The verbs, over one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock: Clock = now
        self.quotas = Quotas(store)
        self.admission = AdmissionChain(store, self.clock)
        self.by_name: dict[str, Callable[[Call], Awaitable[Answer]]] = {
            "get": self.get, "list": self.list, "create": self.create, "update": self.update,
            "patch": self.patch, "delete": self.delete, "deletecollection": self.deletecollection,
        }  # fmt: skip

    # -- reading ---------------------------------------------------------------------------------

    def read(self, call: Call) -> Entry:
        """The object of a call."""
        entry = self.store.get(call.key)
        if entry is None:
            raise preconditions.object_not_found(call)
        return entry

    async def get(self, call: Call) -> Answer:
        """One object."""
        version = call.number("resourceVersion") or 0
        if version > self.store.revision:
            raise api_errors.resource_version_too_large(version, self.store.revision)
        return _shown(call.resource, self.read(call))

    async def list(self, call: Call) -> Answer:
        """A collection, or a page of it."""
        return lists.answer(call, await lists.page(self.store, call))

    # -- creating --------------------------------------------------------------------------------

    async def create(self, call: Call) -> Answer:
        """Create the object in the body."""
        return await self._create(call, decoding.decode_body(call))

    async def _create(self, call: Call, obj: Raw, track: Track | None = None) -> Answer:
        resource, meta = call.resource, obj["metadata"]
        # Before the schema is applied: an invalid status that is not written does no harm.
        create_and_update.drop_status(resource, obj)
        resource.strategy.forms.apply_schema(resource, obj, None)
        namespace = namespace_for(call, meta, self.store)
        if meta.get("resourceVersion"):
            raise api_errors.bad_request(
                "resourceVersion should not be set on objects to be created"
            )
        stored = resource.strategy.forms.to_stored(obj)
        # A generated name that is taken is generated again; a name of the client is not.
        for left in range(1 if meta.get("name") else _NAME_TRIES, 0, -1):
            # Admission changes the object in place, so each try has a copy.
            new = self.admission.create(call, codec.copy(stored), namespace, track)
            key = codec.key(resource, namespace, new["metadata"]["name"])
            try:
                with self.quotas.reserved(resource, key, new):
                    if call.dry_run and self.store.get(key) is None:
                        return unstored_answer(resource, new, 201)
                    if call.dry_run:
                        raise already_exists(resource, key, self.store)
                    encode = codec.stored_encoder(new, resource)
                    return _shown(resource, await self.store.create(key, encode), 201)
            except AlreadyExists as error:
                if left == 1:
                    raise already_exists(resource, key, self.store) from error
        raise AssertionError("the last try returns or raises")

    # -- changing --------------------------------------------------------------------------------

    async def update(self, call: Call) -> Answer:
        """Replace an object."""
        resource, body = call.resource, decoding.decode_body(call)
        if self.store.get(call.key) is None:
            if not resource.create_on_update or call.route.subresource:
                raise preconditions.object_not_found(call)
            return await self._create(call, body)
        if resource.strategy.update_names_revision and not body["metadata"].get("resourceVersion"):
            why = "must be specified for an update"
            cause = causes.invalid("metadata.resourceVersion", 0, why)
            raise api_errors.invalid(resource.group, resource.plural, call.route.name, [cause])
        return await self.change(call, lambda _: codec.copy(body))

    async def patch(self, call: Call) -> Answer:
        """Change part of an object."""
        patch = read_patch(call)
        if patch.is_apply:
            return await self._apply(call, patch)
        schema = decoding.schema_of(call.resource)

        def edit(old: Raw) -> Raw:
            unknown = decoding.preserved_unknown_fields(call, old)
            new = patch.patched(old, schema)
            preconditions.check_patched(call, new, old, strategic=patch.is_strategic)
            decoding.warn_of_duplicates(call)
            decoding.decode_patched(call, new, old, unknown)
            decoding.check_namespace_and_name(call, new)
            decoding.check_name(call, new["metadata"])
            return new

        return await self.change(call, edit)

    async def _apply(self, call: Call, patch: Patch) -> Answer:
        """Server-side apply: create the object, or merge into it."""
        decoding.check_body(call, patch.body)
        owners.check_config(call, patch.body)
        decoding.warn_of_duplicates(call)
        # A subresource exists only with its object.
        if self.store.get(call.key) is None and not call.route.subresource:
            preconditions.check_apply_creates(call, patch.body["metadata"])
            try:
                new = codec.copy(owners.apply_config(call, None, patch.body, self.clock()))
                decoding.decode_strictly(call, new)
                return await self._create(call, new, owners.as_requested)
            except StatusError as error:
                # Another writer may have been faster: then the configuration is merged.
                if error.reason != "AlreadyExists" or self.store.get(call.key) is None:
                    raise

        def edit(old: Raw) -> Raw:
            unknown = decoding.preserved_unknown_fields(call, old)
            # Copied, because the configuration is merged again if another writer is faster.
            new = codec.copy(owners.apply_config(call, old, patch.body, self.clock()))
            decoding.decode_strictly(call, new, unknown)
            return new

        return await self.change(call, edit, owners.as_requested)

    async def change(self, call: Call, edit: Edit, track: Track | None = None) -> Answer:
        """Read, edit, admit, write; again if another writer was faster."""
        resource, forms = call.resource, call.resource.strategy.forms

        async def attempt() -> Answer:
            entry = self.read(call)
            shown = codec.in_version(entry.value, resource)
            # Decoded twice: a patched object may share parts with its argument, and admission
            # changes it in place.
            old, new = codec.decode(shown), edit(codec.decode(shown))
            create_and_update.restore_status(resource, new, old, call.route.subresource)
            forms.apply_schema(resource, new, old)
            preconditions.check_identity(call, new, old)
            old, new = forms.to_stored(old), forms.to_stored(new)
            new = self.admission.update(call, new, old, track)
            return await self._write(call, entry, new, old)

        return await self._retrying(call, attempt)

    async def _retrying(self, call: Call, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        for left in range(_WRITE_TRIES, 0, -1):
            try:
                return await attempt()
            except Conflict as error:
                if left == 1:
                    raise preconditions.conflict(call) from error
            except NotFound as error:
                raise preconditions.object_not_found(call) from error
        raise AssertionError("the last try returns or raises")

    async def _write(self, call: Call, entry: Entry, new: Raw, old: Raw) -> Answer:
        resource = call.resource
        if deletion.can_be_removed(resource, new):  # nothing holds it back any more
            if call.dry_run:
                return unstored_answer(resource, new)
            return _shown(resource, await self._remove(resource, entry, new))
        # A write without a change gets no new revision, unless the storage version has changed:
        # that is how objects migrate.
        if create_and_update.is_unchanged(new, old) and codec.is_current(entry.value, resource):
            return _shown(resource, entry)
        encode = codec.stored_encoder(new, resource)
        with self.quotas.reserved(resource, entry.key, new, old):
            if call.dry_run:
                return unstored_answer(resource, new)
            update = self.store.update(entry.key, encode, entry.revision, _purpose(new))
            return _shown(resource, await update)

    # -- deleting --------------------------------------------------------------------------------

    async def delete(self, call: Call) -> Answer:
        """Remove an object, or mark it as being deleted until nothing holds it back."""
        options = deletion.delete_options(call)
        deletion.check_deletable(call)
        deletion.set_default_propagation(call, options)

        async def attempt() -> Answer:
            entry = self.read(call)
            obj = codec.decode(entry.value)
            preconditions.check_preconditions(call, options, obj)
            plan = deletion.on_delete(call.resource, obj, options, self.clock())
            return await self._delete(call, entry, plan, dry_run=bool(options.get("dryRun")))

        return await self._retrying(call, attempt)

    async def _delete(self, call: Call, entry: Entry, plan: Deletion, *, dry_run: bool) -> Answer:
        resource, rules = call.resource, call.resource.strategy.deletion
        if plan.remove:
            if not dry_run:
                entry = await self._remove(resource, entry, plan.obj)
            if rules.view:
                return json_answer(rules.view(plan.obj, self.clock()))
            if rules.answer == "status":
                name, uid = plan.obj["metadata"]["name"], plan.obj["metadata"]["uid"]
                return json_answer(api_errors.success(resource.group, resource.plural, name, uid))
        elif plan.changed and not dry_run:
            encode = codec.encoder(plan.obj, resource.stored_api_version)
            update = self.store.update(entry.key, encode, entry.revision, Purpose.DELETION)
            entry = await update
        if dry_run:
            value = codec.as_stored(plan.obj, plan.obj["apiVersion"])
            entry = Entry(entry.key, entry.revision, value)
        return _shown(resource, entry)

    async def _remove(self, resource: Resource, entry: Entry, last: Raw) -> Entry:
        encode = codec.encoder(last, resource.stored_api_version)
        removed = await self.store.delete(entry.key, encode, entry.revision)
        contents = resource.strategy.deletion.contents(last)
        for inner in list(self.store.scan(contents)) if contents else ():
            obj = codec.decode(inner.value)
            encode = codec.encoder(obj, obj["apiVersion"])
            await self.store.delete(inner.key, encode, inner.revision)
        return removed

    async def deletecollection(self, call: Call) -> Answer:
        """Delete every object that a list would show."""
        options = deletion.delete_options(call)
        page = await lists.page(self.store, call)
        for entry in page.entries:
            _, namespace, name = entry.key.split("/")
            route = call.route._replace(namespace=namespace, name=name, verb="delete")
            body = codec.dump(options)
            single = replace(call, route=route, query={}, body=body, content_type=JSON)
            try:
                await self.delete(single)
            except StatusError as error:
                if error.status != 404:  # another client may delete the same objects
                    raise
        return lists.answer(call, page)


def _shown(resource: Resource, entry: Entry, code: int = 200) -> Answer:
    """The answer with a stored object."""
    return Answer(code, codec.in_version(entry.value, resource), resource)


def _purpose(new: Raw) -> Purpose:
    if (new.get("status") or {}).get("reason") == EVICTED:
        return Purpose.DELETION  # the files of the pod are deleted once this is written
    deleted = "deletionTimestamp" in new["metadata"]
    return Purpose.CHANGE_WHILE_DELETED if deleted else Purpose.CHANGE
