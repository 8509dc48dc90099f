"""Admission webhooks: called for the requests that they match, after the server's own completion.

Mutating webhooks are called one after the other, in the order of their configurations' names. Each
gets the object with the patches of those before it. If one changes the object, those that asked for
it (`reinvocationPolicy: IfNeeded`) are called once more. Validating webhooks are called at the same
time, with the object as it will be stored. Configurations themselves are never sent to a webhook.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from muster.errors import StatusError
from muster.local.apiserver import api_errors, codec
from muster.local.apiserver.access.authentication import INTERNAL_USER
from muster.local.apiserver.kinds.access.webhook_configuration import GROUP, MUTATING, VALIDATING
from muster.local.apiserver.patch.json_patch import json_patch
from muster.local.apiserver.schema.decoding import decode_admitted
from muster.local.apiserver.webhooks import admission_review
from muster.local.apiserver.webhooks.client import CallError
from muster.local.apiserver.webhooks.webhook import Webhook, matched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.resource_registry import Registry
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.store.store import Store
    from muster.local.apiserver.webhooks.attributes import Attributes
    from muster.local.apiserver.webhooks.client import WebhookClient
    from muster.local.apiserver.webhooks.conversion import Converter

log = logging.getLogger(__name__)

Complete = Callable[["Raw"], None]
"""Completes a new object in place, as the server's own admission does."""


def _nothing(obj: Raw) -> None:
    """The server completes nothing here."""


class AdmissionWebhooks:
    """The webhooks of all configurations in the store."""

    def __init__(
        self, store: Store, registry: Registry, client: WebhookClient, converter: Converter
    ) -> None:
        self._store = store
        self._registry = registry
        self._client = client
        self._converter = converter
        self._mutating: dict[str, list[Webhook]] = {}
        self._validating: dict[str, list[Webhook]] = {}
        self.configured = False
        """Whether there is any webhook: mostly not, and then nothing is prepared for a write."""
        store.subscribe(self._mutating_changed, MUTATING.collection)
        store.subscribe(self._validating_changed, VALIDATING.collection)

    def _mutating_changed(self, change: Change) -> None:
        self._mutating = _updated(self._mutating, change)
        self.configured = bool(self._mutating or self._validating)

    def _validating_changed(self, change: Change) -> None:
        self._validating = _updated(self._validating, change)
        self.configured = bool(self._mutating or self._validating)

    def concern(self, call: Call) -> bool:
        """Whether any webhook may have to be called.

        The server's own writes go past webhooks: their failure would fail the request of another.
        """
        return call.user is not INTERNAL_USER and call.resource.group != GROUP

    # -- mutating --------------------------------------------------------------------------------

    async def mutate(self, request: Attributes, complete: Complete = _nothing) -> Raw | None:
        """The object after all mutating webhooks; None for a request without an object."""
        webhooks = list(chain.from_iterable(self._mutating.values()))
        previous: set[tuple[str, int]] = set()
        again: set[tuple[str, int]] = set()
        changed = False
        current = request
        for webhook in webhooks:
            called, current = await self._mutated_by(webhook, current)
            if called == "changed":
                changed = True
                again |= previous
                previous.clear()
            if called and webhook.reinvocable:
                previous.add(webhook.key)
        if changed and current.obj is not None:
            before = codec.dump(current.obj)
            current = await self._in_version(current, request.resource)
            assert current.obj is not None
            complete(current.obj)
            again |= previous if codec.dump(current.obj) != before else set()
            for webhook in webhooks:
                if webhook.key in again:
                    _, current = await self._mutated_by(webhook, current)
        return (await self._in_version(current, request.resource)).obj

    async def _mutated_by(self, webhook: Webhook, request: Attributes) -> tuple[str, Attributes]:
        """Whether the webhook was called and changed the object, and the request after that."""
        resource = self._matched(webhook, request)
        if resource is None:
            return "", request
        request = await self._in_version(request, resource)
        answer = await self._answer(webhook, request, mutating=True)
        if answer is None or not answer.patch:
            return "called", request
        if request.obj is None:
            raise admission_review.internal_error(
                f'admission webhook "{webhook.name}" attempted to modify the object, which is not'
                " supported for this operation"
            )
        try:
            patched = json_patch(request.obj, answer.patch)
            if request.own_kind:
                patched = decode_admitted(request.resource, patched)
        except StatusError as error:
            raise admission_review.internal_error(str(error)) from error
        same = patched == request.obj
        return ("called" if same else "changed"), replace(request, obj=patched)

    # -- validating ------------------------------------------------------------------------------

    async def validate(self, request: Attributes) -> None:
        """Ask all validating webhooks; the first of them that refuses raises its refusal."""
        calls = []
        for webhook in chain.from_iterable(self._validating.values()):
            resource = self._matched(webhook, request)
            if resource is not None:
                sent = await self._in_version(request, resource)
                calls.append(self._answer(webhook, sent, mutating=False))
        if not calls:
            return
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def admit(self, request: Attributes) -> Raw | None:
        """Both steps at once, for requests whose object is not stored itself."""
        obj = await self.mutate(request)
        await self.validate(replace(request, obj=obj))
        return obj

    # -- one webhook -----------------------------------------------------------------------------

    async def _answer(
        self, webhook: Webhook, request: Attributes, *, mutating: bool
    ) -> admission_review.Answer | None:
        """The answer that allows the request; None if the webhook failed and may be left out."""
        spec, uid = webhook.spec, str(uuid.uuid4())
        sent = admission_review.review(webhook, request, request.resource, uid)
        try:
            received = await self._post(
                spec["clientConfig"], sent, spec.get("timeoutSeconds") or 10
            )
            answer = admission_review.read(sent, received, mutating=mutating)
        except CallError as error:
            text = f'failed calling webhook "{webhook.name}": {error}'
            if webhook.fails_open:
                log.warning("%s; the request goes on without it", text)
                return None
            raise admission_review.internal_error(text) from error
        request.call.warn(*answer.warnings)
        if not answer.allowed:
            raise admission_review.refusal(webhook.name, answer.status)
        return answer

    async def _post(self, config: Raw, body: Raw, seconds: int) -> object:
        try:
            return await self._client.post(config, body, seconds)
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from error

    def _matched(self, webhook: Webhook, request: Attributes) -> Resource | None:
        collection = request.resource.collection
        versions = [r for r in self._registry.all() if r.collection == collection]
        return matched(webhook, request, self._namespace_labels(request), versions)

    def _namespace_labels(self, request: Attributes) -> Mapping[str, str] | None:
        itself = request.resource.collection == "namespaces"
        if itself and not request.subresource and request.operation in ("CREATE", "UPDATE"):
            obj = request.obj
        elif not request.namespace:
            return None
        else:
            entry = self._store.get(f"namespaces//{request.namespace}")
            if entry is None:
                raise api_errors.not_found("", "namespaces", request.namespace)
            obj = codec.decode(entry.value)
        return ((obj or {}).get("metadata") or {}).get("labels") or {}

    async def _in_version(self, request: Attributes, resource: Resource) -> Attributes:
        """The request with its objects in another version of their kind."""
        if resource is request.resource:
            return request
        if not request.own_kind:
            return replace(request, resource=resource)
        objects = [obj for obj in (request.obj, request.old) if obj is not None]
        shown = iter(await self._converter.shown_as(objects, request.resource, resource))
        obj = next(shown) if request.obj is not None else None
        old = next(shown) if request.old is not None else None
        return replace(request, resource=resource, kind=resource.gvk, obj=obj, old=old)


def _updated(webhooks: dict[str, list[Webhook]], change: Change) -> dict[str, list[Webhook]]:
    """The webhooks by configuration, in the order of names."""
    name = change.entry.key.rpartition("/")[2]
    rest = {key: value for key, value in webhooks.items() if key != name}
    if change.deleted:
        return rest
    specs: Sequence[Raw] = codec.decode(change.entry.value).get("webhooks") or ()
    listed = [Webhook(name, i, spec) for i, spec in enumerate(specs)]
    return dict(sorted({**rest, name: listed}.items())) if listed else rest
