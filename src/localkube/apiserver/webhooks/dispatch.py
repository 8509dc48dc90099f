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
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import StatusError
from localkube.apiserver import api_errors, codec
from localkube.apiserver.admission import expressions
from localkube.apiserver.kinds.access.webhook_configuration import MUTATING, VALIDATING
from localkube.apiserver.patch.json_patch import json_patch
from localkube.apiserver.schema.decoding import decode_admitted
from localkube.apiserver.webhooks import admission_review
from localkube.apiserver.webhooks.client import CallError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.meta import Raw
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.admission.attributes import Attributes
    from localkube.apiserver.admission.matching import Matcher
    from localkube.apiserver.store.changes import Change
    from localkube.apiserver.store.store import Store
    from localkube.apiserver.webhooks.client import WebhookClient

log = logging.getLogger(__name__)

Complete = Callable[["Raw"], None]
"""Completes a new object in place, as the server's own admission does."""


class Webhook(NamedTuple):
    """One webhook of a configuration."""

    configuration: str
    position: int
    spec: Raw

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def key(self) -> tuple[str, int]:
        return self.configuration, self.position

    @property
    def fails_open(self) -> bool:
        """Whether a request goes on if the webhook cannot be called."""
        return bool(self.spec.get("failurePolicy") == "Ignore")

    @property
    def reinvocable(self) -> bool:
        return bool(self.spec.get("reinvocationPolicy") == "IfNeeded")


class AdmissionWebhooks:
    """The webhooks of all configurations in the store."""

    def __init__(
        self, store: Store, client: WebhookClient, matcher: Matcher, authorizer: Authorizer
    ) -> None:
        self._client = client
        self._matcher = matcher
        self._authorizer = authorizer
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

    # -- mutating --------------------------------------------------------------------------------

    async def mutate(self, request: Attributes, complete: Complete | None = None) -> Raw | None:
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
            current = await self._matcher.in_version(current, request.resource)
            assert current.obj is not None
            if complete is not None:
                complete(current.obj)
            again |= previous if codec.dump(current.obj) != before else set()
            for webhook in webhooks:
                if webhook.key in again:
                    _, current = await self._mutated_by(webhook, current)
        return (await self._matcher.in_version(current, request.resource)).obj

    async def _mutated_by(self, webhook: Webhook, request: Attributes) -> tuple[str, Attributes]:
        """Whether the webhook was called and changed the object, and the request after that."""
        shown = await self._matched(webhook, request)
        if shown is None:
            return "", request
        request = shown
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
        sent = [
            (webhook, shown)
            for webhook in chain.from_iterable(self._validating.values())
            if (shown := await self._matched(webhook, request))
        ]
        calls = [self._answer(webhook, shown, mutating=False) for webhook, shown in sent]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    # -- one webhook -----------------------------------------------------------------------------

    async def _answer(
        self, webhook: Webhook, request: Attributes, *, mutating: bool
    ) -> admission_review.Answer | None:
        """The answer that allows the request; None if the webhook failed and may be left out."""
        spec = webhook.spec
        versions = spec.get("admissionReviewVersions") or ()
        sent = admission_review.review(versions, request, str(uuid.uuid4()))
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

    async def _matched(self, webhook: Webhook, request: Attributes) -> Attributes | None:
        """The request in the version that the webhook gets; None if it is not called."""
        resource = self._matcher.webhook_version(webhook.spec, request)
        if resource is None:
            return None
        shown = await self._matcher.in_version(request, resource)
        conditions = webhook.spec.get("matchConditions")
        if not conditions:
            return shown
        ask = expressions.asking(self._authorizer, request.call.user)
        match = await expressions.match(conditions, shown, ask)
        if match.error and not webhook.fails_open:
            asked = request.call.resource
            raise api_errors.forbidden(asked.group, asked.plural, request.name, match.error)
        return shown if match.holds else None


def _updated(webhooks: dict[str, list[Webhook]], change: Change) -> dict[str, list[Webhook]]:
    """The webhooks by configuration, in the order of names."""
    name = change.entry.key.rpartition("/")[2]
    rest = {key: value for key, value in webhooks.items() if key != name}
    if change.deleted:
        return rest
    specs: Sequence[Raw] = codec.decode(change.entry.value).get("webhooks") or ()
    listed = [Webhook(name, i, spec) for i, spec in enumerate(specs)]
    return dict(sorted({**rest, name: listed}.items())) if listed else rest
